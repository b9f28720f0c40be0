/* site.h - everything of one run: servers, schedulers, workers, and the network between them. */
#ifndef KILN_TEST_CHAOS_SITE_H
#define KILN_TEST_CHAOS_SITE_H

#include <stdbool.h>

#include "tests/chaos/plan.h"
#include "tests/support/faultproxy.h"
#include "tests/support/link.h"
#include "tests/support/network.h"
#include "tests/support/scheduler_process.h"
#include "tests/support/swift.h"
#include "tests/support/worker_process.h"

/* A scheduler or a worker has a network of its own: a room with cables, or, in every other run and
 * where rooms are not to be had, links. */
struct chaos_seat {
    struct kiln_test_stack view; /* the stack, with a kiln.conf as it is seen from here */
    struct test_room *room;      /* NULL: links */
    struct test_link *links[TEST_CABLES];
};

struct chaos_site {
    struct chaos_plan plan;
    struct kiln_test_stack *stack;
    struct test_swift *swift; /* of all runs */
    struct test_proxy *store; /* before it, of all runs */
    char prefix[32], store_url[64];
    bool rooms;
    struct chaos_seat scheduler_seats[CHAOS_SCHEDULERS], worker_seats[CHAOS_WORKERS];
    struct kiln_test_scheduler schedulers[CHAOS_SCHEDULERS];
    struct kiln_test_worker workers[CHAOS_WORKERS];
    bool scheduler_away[CHAOS_SCHEDULERS], worker_away[CHAOS_WORKERS]; /* on purpose */
    char model[512]; /* of the demo engine; "": the workers draw test cards */
    char disk[128];  /* the small file system under the stack, "" if there is none */
    int restarts;    /* of programs that had ended */
};

/* Starts all of it.  swift and store outlive the run.  One seed in eight is drawn by the demo
 * engine, where it can be; odd seeds have rooms if the test may make them. */
void chaos_site_start(struct chaos_site *site, struct test_swift *swift, struct test_proxy *store,
                      bool rooms);
/* Begins a fault, or ends it. */
void chaos_begin(struct chaos_site *site, const struct chaos_fault *fault);
void chaos_end(struct chaos_site *site, const struct chaos_fault *fault);
/* What a supervisor does: starts again whatever has ended and is not meant to. */
void chaos_tend(struct chaos_site *site);
/* SIGTERM to all programs; false, with the reason on stdout, unless each ends cleanly in time and
 * leaves no process behind. */
bool chaos_site_end(struct chaos_site *site);
/* The servers too; keep: its directory with the logs stays. */
void chaos_site_stop(struct chaos_site *site, bool keep);

#endif
