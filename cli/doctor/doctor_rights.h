/* What our user may do on a Redis: each right is tried, in a way that changes nothing of
   anybody's. */
#ifndef CLI_DOCTOR_DOCTOR_RIGHTS_H
#define CLI_DOCTOR_DOCTOR_RIGHTS_H

#include "base/url.h"
#include "common/server_admin.h"
#include "doctor/findings.h"

void doctor_rights(findings *all, const hf__url *url, server_admin *admin);

#endif
