/* SPDX-License-Identifier: Apache-2.0 */
#include "common/exit_codes.h"

int exit_code_of(hf_result result) {
    switch (result) {
    case HF_BUSY:
    case HF_TIMEOUT: return EXIT_CONFLICT;
    case HF_INVALID:
    case HF_UNSUPPORTED: return EXIT_USAGE;
    case HF_UNREACHABLE:
    case HF_NO_QUORUM:
    case HF_PROTOCOL: return EXIT_STORE;
    case HF_LOST: return EXIT_LOST;
    case HF_UNKNOWN_OUTCOME: return EXIT_UNKNOWN;
    case HF_REFUSED: return EXIT_REFUSED;
    default: return EXIT_SYSTEM;
    }
}
