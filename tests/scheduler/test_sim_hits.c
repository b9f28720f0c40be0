/* test_sim_hits.c - kiln sim with a hit model and with batches: small traces by hand, then random
 * ones whose calls are put together again from what every job got. */
#include <math.h>

#include "scheduler/policy/cost_model.h"
#include "tests/scheduler/sim_rig.h"

static int setup(void **state)
{
    (void)state;
    options = (struct kiln_sim_options){.workers = 1, .base_s = 1};
    return 0;
}

static void hit(const char *depths, double share)
{
    assert_true(kiln_sim_depths_parse(depths, &options.hits));
    options.hits.share = share;
}

/* By the formula of cost_model.h, for 1024x1024. */
static double left_of(double forwards, double before)
{
    const double tokens = 1024 / 16 * 1024 / 16 + 128, fixed = 1e-5 * 1024 * 1024;
    const double step = 0.0113 * tokens + 4.9e-7 * tokens * tokens;
    return (forwards * step + fixed) / (before * step + fixed);
}

static void depths_are_read(void **state)
{
    static const char *const bad[] = {"",
                                      "0",
                                      "x",
                                      "1,",
                                      ",1",
                                      "1:",
                                      "1:0",
                                      "1:-1",
                                      "1:x",
                                      "1:nan",
                                      "1;2",
                                      "100",
                                      "1:inf",
                                      "1: 2",
                                      "-1",
                                      " 1",
                                      "1,1,1,1,1,1,1,1,1"};
    struct kiln_sim_hit_model model;
    (void)state;
    assert_true(kiln_sim_depths_parse("7", &model));
    assert_true(model.depth_count == 1 && model.depths[0].skip == 7 && model.depths[0].weight == 1);
    assert_true(kiln_sim_depths_parse("1:3,2,6:0.5", &model));
    assert_true(model.depth_count == 3 && model.depths[0].weight == 3);
    assert_true(model.depths[1].weight == 1 && model.depths[2].weight == 0.5);
    assert_true(kiln_sim_depths_parse("1,1,1,1,1,1,1,1", &model));
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        if (kiln_sim_depths_parse(bad[i], &model))
            fail_msg("'%s' was taken for depths", bad[i]);
}

/* As scheduler/cache/rule.h: LoRAs, starts and variety never, and nothing that would save nothing.
 */
static void only_some_jobs_may_hit(void **state)
{
    static const uint32_t skips[] = {6, 0, 0, 0, 6, 0, 0, 6};
    (void)state;
    read_text("loras,mode,steps\n,,8\na,,8\n,start=3,8\n,variety=0.3,8\n,coarse=4+3,8\n,,6\n"
              ",coarse=4+2,7\n,coarse=auto,8\n");
    hit("6", 1);
    for (uint32_t i = 0; i < trace->count; i++) {
        const uint32_t skip = kiln_sim_skip(trace, &options.hits, 5, i);
        /* 7 - 6 steps are less than the 3 of coarse=4+2 */
        assert_int_equal(skip, i == 6 ? 6 : skips[i]);
        assert_int_equal(kiln_sim_may_hit(trace, i), i < 1 || i > 3);
    }
    hit("5", 1);
    assert_int_equal(kiln_sim_skip(trace, &options.hits, 5, 4), 5); /* 3 of 4 steps' worth */
    hit("4", 1);
    assert_int_equal(kiln_sim_skip(trace, &options.hits, 5, 4), 0); /* 4 of 4 */
    hit("3", 1);
    assert_int_equal(kiln_sim_skip(trace, &options.hits, 5, 4), 3); /* 3 of its 4 small steps */
    hit("6", 0);
    assert_int_equal(kiln_sim_skip(trace, &options.hits, 5, 0), 0);
}

static void shares_are_what_they_say(void **state)
{
    struct kiln_text text = {0};
    uint32_t hits = 0, deep = 0;
    (void)state;
    kiln_text_puts(&text, "service_s\n");
    for (int i = 0; i < 20000; i++)
        kiln_text_puts(&text, "1\n");
    read_text(text.at);
    kiln_text_release(&text);
    hit("1:3,6:1", 0.4);
    for (uint32_t i = 0; i < trace->count; i++) {
        const uint32_t skip = kiln_sim_skip(trace, &options.hits, 7, i);
        assert_true(skip == 0 || skip == 1 || skip == 6);
        assert_int_equal(kiln_sim_skip(trace, &options.hits, 7, i), skip);
        hits += skip > 0;
        deep += skip == 6;
    }
    assert_float_equal(hits / 20000.0, 0.4, 0.02);
    assert_float_equal((double)deep / hits, 0.25, 0.02);
}

/* Two steps of eight, behind the look-up; without the cache neither. */
static void a_hit_by_hand(void **state)
{
    const double run_s = 8 * left_of(2, 8);
    (void)state;
    read_text("service_s,loras\n8,\n8,a\n");
    hit("6", 1);
    options.hits.lookup_s = 0.5;
    options.workers = 2;
    run_trace();
    assert_int_equal(run.served[0].skip, 6);
    assert_int_equal(run.served[0].start_ns, S / 2);
    assert_float_equal((double)run.served[0].end_ns / 1e9, 0.5 + run_s, 1e-8);
    assert_int_equal(run.served[1].start_ns, 0); /* it asks for nothing */
    assert_int_equal(run.served[1].end_ns, 8 * S);
    assert_true(report.hits == 1 && report.may_hit == 1);
    assert_true(report.steps == 16 && report.steps_saved == 6 && report.lookup_s == 0.5);
    assert_float_equal(report.latency_mean_s, (8.5 + run_s) / 2, 1e-8);
    assert_float_equal(report.latency_p50_s, 0.5 + run_s, 1e-8);
    options.known = KILN_SIM_HITS_NONE;
    run_trace();
    assert_int_equal(run.served[0].end_ns, 8 * S);
    assert_true(report.hits == 0 && report.steps_saved == 0 && report.lookup_s == 0);
    /* What it costs is counted for a coarse run as well: 1 + 3 steps in full, 2 with the hit. */
    options.known = KILN_SIM_HITS_KNOWN;
    read_text("service_s,mode\n4,coarse=4+3\n");
    run_trace();
    assert_float_equal((double)report.makespan_s, 0.5 + 4 * left_of(2, 4), 1e-8);
    assert_true(report.steps == 4 && report.steps_saved == 2);
    /* And one that leaves out two of the small steps. */
    hit("2", 1);
    run_trace();
    assert_int_equal(run.served[0].skip, 2);
    assert_float_equal((double)report.makespan_s, 0.5 + 4 * left_of(3.5, 4), 1e-8);
    assert_true(report.steps == 4 && report.steps_saved == 0.5);
}

/* Three pictures of 4, 2 and 2 seconds, half of whose time a batch takes once. */
static void a_batch_by_hand(void **state)
{
    (void)state;
    read_text("service_s\n4\n2\n2\n");
    options.batch = 4;
    options.batch_fixed = 0.5;
    run_trace();
    for (int i = 0; i < 3; i++) {
        assert_int_equal(run.served[i].start_ns, 0);
        assert_int_equal(run.served[i].end_ns, 6 * S);
        assert_int_equal(run.served[i].work_ns, 2 * S);
    }
    assert_int_equal(report.calls, 1);
    assert_float_equal(report.work_s, 6, 1e-9);
    assert_float_equal(report.lower_bound_s, 6, 1e-9);
    /* What a batch does not make cheaper is rendered alone. */
    read_text("service_s\n2\n2\n2\n");
    options.batch_fixed = 0;
    run_trace();
    assert_int_equal(report.calls, 3);
    assert_int_equal(run.served[1].start_ns, 2 * S);
}

static void random_trace(uint32_t jobs)
{
    struct kiln_text text = {0};
    uint32_t at_ms = 0;
    kiln_text_puts(&text, "arrival_s,tenant,width,loras,service_s\n");
    for (uint32_t i = 0; i < jobs; i++) {
        at_ms += random_below(600);
        kiln_text_printf(&text, "%u.%03u,t%u,%u,%s,%u.5\n", at_ms / 1000, at_ms % 1000,
                         random_below(3), random_below(3) ? 1024 : 512,
                         random_below(4) ? "" : "ink", 1 + random_below(2));
    }
    read_text(text.at);
    kiln_text_release(&text);
}

struct one_call {
    uint32_t worker, skip, set, members;
    int64_t start_ns, end_ns;
    double sum_s, longest_s;
};

static int by_worker_and_start(const void *a, const void *b)
{
    const struct one_call *x = a, *y = b;
    if (x->worker != y->worker)
        return x->worker < y->worker ? -1 : 1;
    return (x->start_ns > y->start_ns) - (x->start_ns < y->start_ns);
}

/* Puts the calls together from the jobs: each takes what the formula says, pictures of one call
 * have one set and as many steps left, and no worker does two things at once. */
static void account(void)
{
    struct one_call *calls = calloc(trace->count, sizeof *calls);
    uint32_t count = 0;
    for (uint32_t i = 0; i < trace->count; i++) {
        const struct kiln_sim_served *served = &run.served[i];
        const struct kiln_trace_job *job = &trace->jobs[i];
        const struct kiln_trace_shape shape = kiln_trace_shape(trace, job->shape);
        const uint32_t skip = options.known == KILN_SIM_HITS_NONE
                                  ? 0
                                  : kiln_sim_skip(trace, &options.hits, options.seed, i);
        const double own_s = (double)job->service_ns / 1e9 * kiln_sim_left(shape, skip);
        uint32_t at = 0;
        assert_int_equal(served->skip, skip);
        assert_true(served->start_ns >= job->arrival_ns);
        while (at < count &&
               (calls[at].worker != served->worker || calls[at].start_ns != served->start_ns))
            at++;
        if (at == count)
            calls[count++] = (struct one_call){.worker = served->worker,
                                               .skip = skip,
                                               .set = job->set,
                                               .start_ns = served->start_ns,
                                               .end_ns = served->end_ns};
        struct one_call *call = &calls[at];
        assert_true(call->skip == skip && call->set == job->set);
        assert_true(call->end_ns == served->end_ns && ++call->members <= options.batch);
        call->sum_s += own_s;
        call->longest_s = fmax(call->longest_s, own_s);
    }
    assert_int_equal(report.calls, count);
    qsort(calls, count, sizeof *calls, by_worker_and_start);
    for (uint32_t i = 0; i < count; i++) {
        const struct one_call *call = &calls[i];
        const double expected_s =
            options.batch_fixed * call->longest_s + (1 - options.batch_fixed) * call->sum_s;
        assert_float_equal((double)(call->end_ns - call->start_ns) / 1e9,
                           call->members > 1 ? expected_s : call->sum_s, 1e-6);
        if (i > 0 && calls[i - 1].worker == call->worker)
            assert_true(call->start_ns >= calls[i - 1].end_ns);
    }
    free(calls);
}

/* The policy that knows the hits never mixes them, so its assignments are calls; and it makes as
 * few calls as it can. */
static void random_runs_keep_the_books(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 8; seed++) {
        uint64_t calls[3];
        random_state = seed;
        random_trace(600);
        options.seed = seed;
        options.workers = 1 + random_below(3);
        options.batch = 4;
        options.batch_fixed = 0.3;
        hit("1:2,6:1", 0.4);
        for (int known = KILN_SIM_HITS_KNOWN; known <= KILN_SIM_HITS_NONE; known++) {
            options.known = (enum kiln_sim_hits_known)known;
            run_trace();
            account();
            calls[known] = report.calls;
        }
        assert_true(calls[KILN_SIM_HITS_KNOWN] <= calls[KILN_SIM_HITS_UNKNOWN]);
    }
}

/* What grouping by the steps left is for, and that nobody pays for it: the longest wait of a
 * backlog is no longer than without. */
static void grouping_saves_time(void **state)
{
    struct kiln_text text = {0};
    struct kiln_sim_comparison cache = {0};
    (void)state;
    kiln_text_puts(&text, "service_s\n");
    for (int i = 0; i < 800; i++)
        kiln_text_puts(&text, "1\n");
    read_text(text.at);
    hit("1:2,6:1", 0.3);
    options.workers = 4;
    options.batch = 4;
    options.batch_fixed = 0.2;
    options.known = KILN_SIM_HITS_NONE;
    run_trace();
    cache.full = report;
    options.known = KILN_SIM_HITS_UNKNOWN;
    run_trace();
    cache.unknown = report;
    options.known = KILN_SIM_HITS_KNOWN;
    run_trace();
    cache.known = report;
    assert_true(cache.unknown.makespan_s < cache.full.makespan_s);
    assert_true(cache.known.makespan_s < 0.98 * cache.unknown.makespan_s);
    assert_true(cache.known.latency_mean_s < 0.98 * cache.unknown.latency_mean_s);
    assert_true(cache.known.wait_max_s <= cache.unknown.wait_max_s);
    text.len = 0;
    kiln_sim_comparison_text(&cache, &options, &text);
    assert_non_null(strstr(text.at, "hits, unknown"));
    assert_non_null(strstr(text.at, "of what is left, grouping by the steps left saves"));
    text.len = 0;
    options.policy = KILN_SIM_FIFO;
    kiln_sim_comparison_text(&cache, &options, &text);
    assert_null(strstr(text.at, "unknown"));
    kiln_text_release(&text);
}

int main(void)
{
#define SIM_TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        SIM_TEST(depths_are_read),          SIM_TEST(only_some_jobs_may_hit),
        SIM_TEST(shares_are_what_they_say), SIM_TEST(a_hit_by_hand),
        SIM_TEST(a_batch_by_hand),          SIM_TEST(random_runs_keep_the_books),
        SIM_TEST(grouping_saves_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
