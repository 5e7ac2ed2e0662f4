/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One server that writes everything to disk (F23), plain and over TLS. It is killed and restarted
 * or stopped, and its connections are closed, sometimes only those for notifications (F56). Over
 * TLS it sometimes comes back with the certificate of another host, and no client accepts it (F41).
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "topology.h"

static t_redis *server;

static void kill_it(void) {
    t_redis_kill9(server);
    print_fault("killed the server");
    t_sleep_ms(random_below(2000));
    t_redis_restart(server);
    print_fault("it is back, with its data");
}

static void restart_at_once(void) {
    t_redis_restart(server);
    print_fault("killed and restarted the server, with its data");
}

static void stop_it(void) {
    int64_t ms = 100 + random_below(1500);
    t_redis_stop(server);
    print_fault("stopped the server for %d ms", (int)ms);
    t_sleep_ms(ms);
    t_redis_cont(server);
}

static void end_connections(const char *type) {
    int64_t ended = t_redis_int(server, "CLIENT KILL TYPE %s SKIPME yes", type);
    print_fault("closed %d connections, of type %s", (int)ended, type);
}

static void end_messages(void) {
    end_connections("pubsub");
}

static void end_commands(void) {
    end_connections("normal");
}

static void forget_scripts(void) {
    freeReplyObject(t_redis_cmd(server, "SCRIPT FLUSH"));
    print_fault("flushed the scripts of the server");
}

static const char *start_single(void) {
    server = t_redis_start(&(t_redis_options){.appendonly = true});
    return t_redis_url(server);
}

static void end_single(void) {
    t_redis_free(server);
}

static topology_fault *const faults[] = {kill_it,      restart_at_once, stop_it, end_messages,
                                         end_commands, forget_scripts,  NULL};

const topology topology_single = {"single", "lease=10s&outage=90s&command_timeout=2s", start_single,
                                  faults, end_single};

/* ---- Over TLS -------------------------------------------------------------------------------- */

static char directory[] = "/tmp/hf-topology-tls-XXXXXX", tls_options[256];

/* The server uses the certificate `current`. Makes it a copy of the one of this name. */
static void have_certificate(const char *name) {
    char command[512];
    snprintf(command, sizeof command, "cd %s && cp %s.crt current.crt && cp %s.key current.key",
             directory, name, name);
    if (system(command) != 0) t_fail("the command failed: %s", command);
}

static void come_back_as_another(void) {
    t_redis_kill9(server);
    have_certificate("other-host");
    t_redis_restart(server);
    print_fault("restarted the server with the certificate of another host");
    t_sleep_ms(500 + random_below(1000));
    t_redis_kill9(server);
    have_certificate("good");
    t_redis_restart(server);
    print_fault("the server has its own certificate again");
}

static const char *start_tls(void) {
    static char url[64];
    char lines[4][512];
    uint16_t port = t_net_free_port();
    if (!mkdtemp(directory)) t_fail("cannot create a directory");
    snprintf(lines[0], sizeof lines[0], CERTIFICATES " %s >/dev/null 2>&1", directory);
    if (system(lines[0]) != 0) t_fail("cannot create the certificates");
    have_certificate("good");
    snprintf(lines[0], sizeof lines[0], "tls-port %u", port);
    snprintf(lines[1], sizeof lines[1], "tls-cert-file %s/current.crt", directory);
    snprintf(lines[2], sizeof lines[2], "tls-key-file %s/current.key", directory);
    snprintf(lines[3], sizeof lines[3], "tls-ca-cert-file %s/ca.crt", directory);
    const char *config[] = {lines[0], lines[1], lines[2], lines[3], "tls-auth-clients no", NULL};
    server = t_redis_start(&(t_redis_options){.appendonly = true, .config = config});
    snprintf(tls_options, sizeof tls_options, "%s&tls_ca=%s/ca.crt", topology_single.options,
             directory);
    snprintf(url, sizeof url, "rediss://localhost:%u", port);
    return url;
}

static void end_tls(void) {
    char command[64];
    end_single();
    snprintf(command, sizeof command, "rm -rf %s", directory);
    if (system(command) != 0) t_fail("the command failed: %s", command);
}

static topology_fault *const tls_deeds[] = {kill_it,
                                            restart_at_once,
                                            stop_it,
                                            end_messages,
                                            end_commands,
                                            come_back_as_another,
                                            come_back_as_another,
                                            NULL};

const topology topology_tls = {"tls", tls_options, start_tls, tls_deeds, end_tls};
