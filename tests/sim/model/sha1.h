/* SPDX-License-Identifier: Apache-2.0 */
/* SHA-1, which Redis uses to name scripts. */
#ifndef SIM_MODEL_SHA1_H
#define SIM_MODEL_SHA1_H

#include "model/bytes.h"

#define RM_SHA1_LENGTH 40

void rm_sha1(char out[RM_SHA1_LENGTH + 1], rm_bytes text);

#endif
