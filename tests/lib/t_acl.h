/* The user of docs/REDIS-PROTOCOL.md, who may do just what it takes. */
#ifndef T_ACL_H
#define T_ACL_H

#include "t_redis.h"

enum { T_ACL_LINE = 2048 };

/* "ACL SETUSER holdfast …", as it stands there; the user's password is PASSWORD. */
void t_acl_documented(char line[T_ACL_LINE]);

/* Make that user, also for keys and channels of another prefix (NULL: of none). Its URL, as of
   t_redis_url_as. */
const char *t_acl_user(t_redis *redis, const char *prefix);

/* The same on a node of a cluster, with what it needs besides. */
void t_acl_user_in_cluster(t_redis *redis, const char *prefix);

/* Fails if a user was refused anything since the server started, or since ACL LOG RESET. */
void t_acl_none_refused(t_redis *redis);

#endif
