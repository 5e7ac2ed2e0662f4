/* SPDX-License-Identifier: Apache-2.0 */
/* Checks the rights of the user on Redis by trying each command, without changing other data. */
#ifndef CLI_DOCTOR_DOCTOR_RIGHTS_H
#define CLI_DOCTOR_DOCTOR_RIGHTS_H

#include "base/url.h"
#include "common/server_admin.h"
#include "doctor/findings.h"

void doctor_rights(findings *all, const hf__url *url, server_admin *admin);

#endif
