/* servers.h - the simulated Redis, Postgres and object store, and the network before them.
 *
 * A request travels, is carried out at one moment, and its answer travels back; each of the three
 * can go wrong on its own.  What was sent is carried out even if the sender has died meanwhile.
 */
#ifndef KILN_SIM_SERVERS_H
#define KILN_SIM_SERVERS_H

#include "tests/sim/redis.h"
#include "tests/sim/tables.h"
#include "tests/sim/world.h"

/* Chances in thousandths a request; all zero: a perfect network. */
struct sim_weather {
    uint32_t lose_request, lose_answer, slow;
};

struct sim_server {
    const char *name;
    bool down, hung, full;
    uint32_t life;             /* grows with every crash: connections of an earlier life are dead */
    int64_t quick_us, lazy_us; /* a request takes between these, one way */
    struct sim_weather weather;
    int64_t wall_ahead; /* its wall clock against the world's, in us */
    struct sim_request *frozen;
};

struct sim_fleet {
    struct sim_server redis, postgres, store;
    struct sim_redis data;
    struct sim_tables tables;
    uint32_t drop_entry, double_entry; /* of appended entries, in thousandths */
    uint32_t locked_row, cut_pipeline;
    bool no_events; /* every one is lost, which must do no harm */
    /* Broken on purpose, to show that it is noticed. */
    bool two_leaders, ack_at_once;
};
extern struct sim_fleet sim_fleet;

enum sim_answer { SIM_ANSWERED, SIM_CUT, SIM_LATE };

/* Sends a request and waits.  run(arg) is the server's work.  CUT: the connection was lost, LATE:
 * limit_us passed; in both cases the work may or may not be done.  release NULL: arg is the
 * caller's, and nothing happens any more once the call has returned.  Else arg is handed over:
 * a late request is still carried out when it arrives, and release(arg) ends it; until the next
 * call of sim_request_end the caller may read it. */
struct sim_request;
enum sim_answer sim_send(struct sim_server *server, void (*run)(void *arg), void *arg,
                         void (*release)(void *arg), int64_t limit_us, struct sim_request **ret);
void sim_request_end(struct sim_request *request); /* accepts NULL */

int64_t sim_server_ms(const struct sim_server *server); /* its wall clock */
void sim_server_crash(struct sim_server *server);
void sim_server_start(struct sim_server *server);
void sim_server_hang(struct sim_server *server, bool hung);

/* Every session of Postgres ends, as in a failover; nobody is told. */
void sim_ledger_end_sessions(void);

/* Keys in the object store. */
bool sim_store_has(const char *key);

/* Set by the checks: called when a commit was acknowledged, and when a batch is rendered. */
extern void (*sim_on_commit)(const struct kiln_commit *commit, bool ours);

#endif
