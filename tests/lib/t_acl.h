/* SPDX-License-Identifier: Apache-2.0 */
/* The ACL user of docs/REDIS-PROTOCOL.md, which has only the rights that the library needs. */
#ifndef T_ACL_H
#define T_ACL_H

#include "t_redis.h"

enum { T_ACL_LINE = 2048 };

/* The line "ACL SETUSER holdfast …" of that document. The password of the user is PASSWORD. */
void t_acl_documented(char line[T_ACL_LINE]);

/* Create that user, with access to keys and channels of another prefix too (NULL: none). Returns
   its URL, which lives as long as that of t_redis_url_as. */
const char *t_acl_user(t_redis *redis, const char *prefix);

/* The same on a node of a cluster, with the additional rights for that. */
void t_acl_user_in_cluster(t_redis *redis, const char *prefix);

/* Fails if any user was denied anything since the server started, or since ACL LOG RESET. */
void t_acl_none_refused(t_redis *redis);

#endif
