/* What the verbs of store.h do to one lock, as `self`; sweep it first. */
#ifndef HF_STORE_ROOM_VERBS_H
#define HF_STORE_ROOM_VERBS_H

#include "store/room/room.h"

/* Whom an operation is about. */
hf__party hf__room_party(const hf__member *self, const hf__op *op);

hf_result hf__room_ask(hf__room *room, const hf__member *self, hf__op *op, hf__time now);
hf_result hf__room_renew(hf__room *room, const hf__member *self, hf__op *op, hf__time now);
hf_result hf__room_release(hf__room *room, const hf__member *self, const hf__op *op);
hf_result hf__room_break(hf__room *room, hf__op *op, hf__time now);
void hf__room_inspect(const hf__room *room, hf__sight *sight, hf__time now);

#endif
