/* SPDX-License-Identifier: Apache-2.0 */
/* Option structs of other versions: see options.h. */
#include "client/options.h"

#include <string.h>

#include "base/error.h"

hf_result hf__options_copy(const char *what, void *to, size_t known, const void *from,
                           size_t size) {
    memset(to, 0, known);
    if (!from) return HF_OK;
    memcpy(to, from, size < known ? size : known);
    for (size_t i = known; i < size; i++)
        if (((const unsigned char *)from)[i])
            return hf__fail(HF_UNSUPPORTED,
                            "the caller sets a field of %s that holdfast %s does not have; it was "
                            "compiled against a newer version",
                            what, hf_version());
    return HF_OK;
}
