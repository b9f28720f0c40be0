/* test_sim.c - small traces whose schedule can be worked out by hand, then random ones whose every
 * decision is checked against the model of sim.h by an accountant that shares no code with it. */
#include <math.h>
#include <stdio.h>

#include "scheduler/policy/cost_model.h"
#include "scheduler/sim/fair.h"
#include "tests/scheduler/sim_rig.h"

static void simulate(enum kiln_sim_policy policy, uint32_t workers, double switch_s)
{
    options.policy = policy;
    options.workers = workers;
    options.switch_s = switch_s;
    options.base_s = options.base_s > 0 ? options.base_s : 1;
    options.window = options.window ? options.window : 32;
    run_trace();
}

static int reset(void **state)
{
    (void)state;
    memset(&options, 0, sizeof options);
    return 0;
}

static const enum kiln_sim_policy policies[] = {KILN_SIM_KILN, KILN_SIM_FIFO, KILN_SIM_AFFINITY};

/* --- by hand --------------------------------------------------------------------------------- */
/* Nothing is loaded at the start, so the bare model is loaded like any other set. */
static void the_first_load_is_a_switch(void **state)
{
    (void)state;
    read_text("service_s\n3\n");
    for (int i = 0; i < 3; i++) {
        simulate(policies[i], 4, 2);
        assert_int_equal(run.served[0].start_ns, 2 * S);
        assert_int_equal(run.served[0].end_ns, 5 * S);
        assert_int_equal(report.switches, 1);
        assert_int_equal(report.switches_min, 1);
        assert_float_equal(report.makespan_s, 5, 1e-12);
        assert_float_equal(report.lower_bound_s, 5, 1e-12);
        assert_float_equal(report.wait_max_s, 2, 1e-12);
        assert_float_equal(report.ratio, 1, 1e-12);
    }
}

/* a, then b, then a again on one worker; b+c takes two files, and a disk of three loses what was
 * used longest ago. */
static void files_are_fetched_once_while_the_disk_has_room(void **state)
{
    (void)state;
    options.fetch_s = 10;
    options.disk = 3;
    read_text("arrival_s,loras,service_s\n0,a,1\n100,b+c,1\n200,a,1\n300,d,1\n400,b+c,1\n500,,1\n");
    static const int64_t starts[] = {11, 121, 201, 311, 411, 501}; /* d put b out: one file again */
    static const uint32_t fetches[] = {1, 2, 0, 1, 1, 0};
    for (int i = 0; i < 3; i++) {
        simulate(policies[i], 1, 1);
        for (int j = 0; j < 6; j++) {
            assert_int_equal(run.served[j].start_ns, starts[j] * S);
            assert_int_equal(run.served[j].fetches, fetches[j]);
        }
        assert_int_equal(report.fetches, 5);
        assert_float_equal(report.switch_s, 6 + 50, 1e-12);
    }
}

/* Two sets wait; the worker that is free has the files of the second on its disk, and the policy
 * knows it.  Without files it takes the first. */
static void the_policy_knows_what_is_on_the_disks(void **state)
{
    (void)state;
    read_text("arrival_s,loras,service_s\n0,b,1\n50,c,1\n100,a,1\n100,b,1\n");
    options.disk = 8;
    for (int with = 0; with < 2; with++) {
        options.fetch_s = with ? 10 : 0;
        simulate(KILN_SIM_KILN, 1, 1);
        assert_int_equal(run.served[with ? 3 : 2].start_ns, 101 * S);
        assert_int_equal(run.served[with ? 2 : 3].start_ns, (with ? 113 : 103) * S);
    }
}

/* A B A B on one worker, a second each and a second to switch. */
static void alternating_sets(void **state)
{
    (void)state;
    read_text("loras,service_s\na,1\nb,1\na,1\nb,1\n");
    simulate(KILN_SIM_FIFO, 1, 1);
    assert_int_equal(report.switches, 4);
    assert_float_equal(report.makespan_s, 8, 1e-12);
    assert_float_equal(report.wait_mean_s, (1 + 3 + 5 + 7) / 4.0, 1e-12);
    assert_float_equal(report.wait_p50_s, 3, 1e-12);
    assert_float_equal(report.wait_p99_s, 7, 1e-12);
    assert_float_equal(report.lower_bound_s, 6, 1e-12);
    options.window = 1;
    simulate(KILN_SIM_AFFINITY, 1, 1);
    assert_int_equal(report.switches, 4);
    options.window = 2;
    simulate(KILN_SIM_AFFINITY, 1, 1);
    assert_int_equal(report.switches, 2);
    assert_float_equal(report.makespan_s, 6, 1e-12);
    simulate(KILN_SIM_KILN, 1, 1);
    assert_int_equal(report.switches, 2);
    assert_float_equal(report.makespan_s, 6, 1e-12);
    assert_float_equal(report.ratio, 1, 1e-12);
}

/* The longest job and its load is a bound as well. */
static void a_long_job_is_a_bound(void **state)
{
    (void)state;
    read_text("loras,service_s\na,2\na,2\na,2\nb,10\n");
    simulate(KILN_SIM_FIFO, 2, 1);
    assert_float_equal(report.lower_bound_s, 11, 1e-12);
    assert_int_equal(report.switches_min, 2);
    assert_float_equal(report.work_s, 16, 1e-12);
    simulate(KILN_SIM_KILN, 2, 1);
    assert_float_equal(report.makespan_s, 11, 1e-12);
}

static void no_lora_is_a_set(void **state)
{
    (void)state;
    read_text("loras,service_s\n,1\na,1\n,1\n");
    simulate(KILN_SIM_FIFO, 1, 10);
    assert_int_equal(report.switches, 3);
    assert_int_equal(report.switches_min, 2);
    assert_float_equal(report.lower_bound_s, 23, 1e-12);
}

static void waits_begin_at_the_arrival(void **state)
{
    (void)state;
    read_text("arrival_s,service_s\n105,1\n100,4\n");
    for (int i = 0; i < 3; i++) {
        simulate(policies[i], 1, 0.5);
        assert_int_equal(run.served[0].start_ns, S / 2); /* at 100 */
        assert_int_equal(run.served[1].start_ns, 5 * S); /* at 105, nothing to load */
        assert_float_equal(report.wait_max_s, 0.5, 1e-12);
        assert_float_equal(report.makespan_s, 6, 1e-12);
        assert_float_equal(report.arrivals_s, 6, 1e-12);
        assert_int_equal(report.switches, 1);
    }
}

static void an_idle_worker_with_the_set_is_found(void **state)
{
    (void)state;
    read_text("arrival_s,loras,service_s\n0,a,1\n0,b,1\n10,b,1\n20,a,1\n");
    simulate(KILN_SIM_AFFINITY, 2, 1);
    assert_int_equal(report.switches, 2);
    simulate(KILN_SIM_KILN, 2, 1);
    assert_int_equal(report.switches, 2);
    simulate(KILN_SIM_FIFO, 2, 1);
    assert_int_equal(report.switches, 4); /* the longest free is the other one, twice */
}

static void empty_service_comes_from_the_cost_model(void **state)
{
    struct kiln_cost_shape base = {
        .model = "", .width = 1024, .height = 1024, .steps = 8, .jobs = 1};
    struct kiln_cost_shape small = base;
    (void)state;
    small.width = 512;
    small.height = 768;
    small.steps = 4;
    read_text("width,height,steps,service_s\n1024,1024,8,\n512,768,4,\n512,768,4,7\n");
    options.base_s = 2;
    simulate(KILN_SIM_FIFO, 3, 0);
    assert_int_equal(run.served[0].end_ns, 2 * S);
    double expected = 2 * kiln_cost_tflop(&small) / kiln_cost_tflop(&base);
    assert_float_equal((double)run.served[1].end_ns / 1e9, expected, 1e-8);
    assert_int_equal(run.served[2].end_ns, 7 * S);
}

static void deadlines_are_counted(void **state)
{
    (void)state;
    read_text("max_wait_s,service_s\n1,2\n1,2\n,2\n6,2\n6,2\n");
    simulate(KILN_SIM_FIFO, 1, 0);
    assert_int_equal(report.promises, 4);
    assert_int_equal(report.missed_max_wait, 2); /* waits 0 2 4 6 8 */
    read_text("max_wait_s,service_s\n,5\n,5\n,5\n6,5\n");
    simulate(KILN_SIM_FIFO, 1, 0);
    assert_int_equal(report.missed_max_wait, 1);
    simulate(KILN_SIM_KILN, 1, 0);
    assert_int_equal(report.missed_max_wait, 0);
}

static void the_nearest_rank_is_taken(void **state)
{
    char text[2048] = "service_s\n";
    (void)state;
    for (int i = 0; i < 200; i++)
        strcat(text, "1\n");
    read_text(text);
    simulate(KILN_SIM_FIFO, 1, 0); /* waits 0 .. 199 */
    assert_float_equal(report.wait_p50_s, 99, 1e-12);
    assert_float_equal(report.wait_p99_s, 197, 1e-12);
    assert_float_equal(report.wait_max_s, 199, 1e-12);
}

/* --- fairness -------------------------------------------------------------------------------- */
static void the_gap_by_hand(void **state)
{
    (void)state;
    read_text("tenant,service_s\na,1\na,1\nb,1\nb,1\n");
    simulate(KILN_SIM_FIFO, 1, 0);
    assert_float_equal(report.fair_gap_gpu_s, 2, 1e-12);
    read_text("tenant,service_s\na,1\nb,1\na,1\nb,1\n");
    simulate(KILN_SIM_FIFO, 1, 0);
    assert_float_equal(report.fair_gap_gpu_s, 1, 1e-12);
    read_text("service_s\n1\n1\n1\n");
    simulate(KILN_SIM_FIFO, 1, 0);
    assert_float_equal(report.fair_gap_gpu_s, 0, 1e-12);
}

/* Who has nothing waiting is nobody's measure: b's job comes after all of a's have started. */
static void the_gap_needs_two_that_wait(void **state)
{
    (void)state;
    read_text("arrival_s,tenant,service_s\n0,a,1\n0,a,1\n0,a,1\n2.5,b,1\n2.5,b,1\n");
    simulate(KILN_SIM_FIFO, 1, 0);
    assert_float_equal(report.fair_gap_gpu_s, 0, 1e-12);
}

/* When a tenant comes back the pair begins anew; low and high are of one interval. */
static void a_pair_begins_anew(void **state)
{
    const double work_s[] = {10, 10};
    struct kiln_fair *fair = kiln_fair_new(work_s, 2);
    (void)state;
    for (int i = 0; i < 6; i++)
        kiln_fair_arrived(fair, 0);
    kiln_fair_arrived(fair, 1);
    kiln_fair_started(fair, 0, 2);
    kiln_fair_started(fair, 1, 1); /* 1 has none left; the range was 0 .. 2 */
    assert_float_equal(kiln_fair_gap(fair), 2, 1e-12);
    kiln_fair_started(fair, 0, 50); /* alone */
    kiln_fair_arrived(fair, 1);
    kiln_fair_started(fair, 0, 1);
    assert_float_equal(kiln_fair_gap(fair), 2, 1e-12);
    kiln_fair_started(fair, 0, 3);
    assert_float_equal(kiln_fair_gap(fair), 4, 1e-12);
    kiln_fair_free(fair);
}

static void kiln_is_fairer_than_fifo(void **state)
{
    struct kiln_text text = {0};
    (void)state;
    kiln_text_puts(&text, "tenant,loras,service_s\n");
    for (int i = 0; i < 1000; i++)
        kiln_text_printf(&text, "%s,l%d,1\n", i < 800 ? "big" : "small", i % 3);
    read_text(text.at);
    kiln_text_release(&text);
    simulate(KILN_SIM_FIFO, 2, 0.1);
    double fifo_s = report.fair_gap_gpu_s;
    assert_true(fifo_s >= 799);
    simulate(KILN_SIM_KILN, 2, 0.1);
    assert_true(report.fair_gap_gpu_s < fifo_s / 2);
}

/* --- random traces, every decision checked --------------------------------------------------- */
static void random_trace(uint32_t jobs)
{
    struct kiln_text text = {0};
    bool online = random_below(2), promises = random_below(2);
    uint32_t sets = 1 + random_below(30), tenants = 1 + random_below(5), at_ms = 0;
    kiln_text_puts(&text, "arrival_s,tenant,width,loras,priority,max_wait_s,service_s\n");
    for (uint32_t i = 0; i < jobs; i++) {
        at_ms += online ? random_below(400) : 0;
        kiln_text_printf(&text, "%u.%03u,t%u,%u,", at_ms / 1000, at_ms % 1000,
                         random_below(tenants), random_below(3) ? 1024 : 512);
        uint32_t set = random_below(sets);
        if (set)
            kiln_text_printf(&text, "l%u", set * set / sets);
        kiln_text_printf(&text, ",%d,", random_below(10) ? 0 : (int)random_below(21) - 10);
        if (promises && random_below(2))
            kiln_text_printf(&text, "%u", 1 + random_below(200));
        kiln_text_printf(&text, ",%u.%u\n", random_below(3), 1 + random_below(9));
    }
    read_text(text.at);
    kiln_text_release(&text);
}

struct step {
    struct kiln_sim_served served;
    uint32_t job;
};

static int by_worker_and_start(const void *a, const void *b)
{
    const struct step *x = a, *y = b;
    if (x->served.worker != y->served.worker)
        return x->served.worker < y->served.worker ? -1 : 1;
    return x->served.start_ns < y->served.start_ns ? -1 : 1;
}

/* Holds the run to the model: nobody starts early, no worker does two things at once, loads are
 * where sets change and nowhere else, and the sums are those of the report. */
static void account(void)
{
    struct step *steps = calloc(trace->count, sizeof *steps);
    uint64_t switches = 0;
    int64_t end_ns = 0, switch_ns = (int64_t)llround(options.switch_s * 1e9);
    for (uint32_t i = 0; i < trace->count; i++) {
        steps[i] = (struct step){run.served[i], i};
        assert_true(run.served[i].worker < options.workers);
        assert_int_equal(run.served[i].end_ns - run.served[i].start_ns, trace->jobs[i].service_ns);
        if (run.served[i].end_ns > end_ns)
            end_ns = run.served[i].end_ns;
    }
    qsort(steps, trace->count, sizeof *steps, by_worker_and_start);
    for (uint32_t i = 0; i < trace->count; i++) {
        const struct kiln_trace_job *job = &trace->jobs[steps[i].job];
        bool first = i == 0 || steps[i].served.worker != steps[i - 1].served.worker;
        bool changes = first || trace->jobs[steps[i - 1].job].set != job->set;
        int64_t begins = steps[i].served.start_ns - (changes ? switch_ns : 0);
        assert_int_equal(steps[i].served.switched, changes);
        assert_true(begins >= job->arrival_ns);
        if (!first)
            assert_true(begins >= steps[i - 1].served.end_ns);
        switches += changes;
    }
    free(steps);
    assert_int_equal(report.switches, switches);
    assert_true(report.switches >= report.switches_min);
    assert_float_equal(report.makespan_s, (double)end_ns / 1e9, 1e-9);
    assert_true(report.makespan_s >= report.lower_bound_s - 1e-6);
    assert_true(report.makespan_s >= report.arrivals_s - 1e-6);
}

static void random_runs_keep_the_books(void **state)
{
    (void)state;
    for (random_state = 1; random_state <= 12;) {
        uint64_t seed = random_state;
        random_trace(200 + random_below(600));
        for (int i = 0; i < 3; i++) {
            options.window = 1 + random_below(64);
            simulate(policies[i], 1 + random_below(12), random_below(40) / 10.0);
            account();
        }
        random_state = seed + 1;
    }
}

/* --- jobs of several modes -------------------------------------------------------------------- */

/* Arrivals for workers that are busy most of the time; the pictures cost the same whatever their
 * mode, so that modes can only matter by who may share a batch. */
static void trace_of_modes(uint64_t seed, uint32_t jobs, bool mixed)
{
    static const char *const modes[] = {"", "coarse=4+3", "coarse=4+2", "start=5"};
    struct kiln_text text = {0};
    uint32_t at_ms = 0;
    random_state = seed;
    kiln_text_puts(&text, "arrival_s,mode,service_s\n");
    for (uint32_t i = 0; i < jobs; i++) {
        const char *mode = modes[random_below(4)];
        at_ms += random_below(random_below(8) ? 600 : 4000);
        kiln_text_printf(&text, "%u.%03u,%s,1\n", at_ms / 1000, at_ms % 1000, mixed ? mode : "");
    }
    read_text(text.at);
    kiln_text_release(&text);
}

/* Nanoseconds of from .. to in which a worker renders, added up over all workers.  The pictures of
 * a call have one start and one end. */
static int64_t busy_ns(const struct step *steps, int64_t from, int64_t to)
{
    int64_t busy = 0, seen = from;
    for (uint32_t k = 0; k < trace->count; k++) {
        const struct kiln_sim_served *s = &steps[k].served;
        if (k > 0 && s->worker != steps[k - 1].served.worker)
            seen = from;
        const int64_t begins = s->start_ns > seen ? s->start_ns : seen;
        const int64_t ends = s->end_ns < to ? s->end_ns : to;
        if (ends > begins) {
            busy += ends - begins;
            seen = ends;
        }
    }
    return busy;
}

/* From the arrival of each job to its start all workers are busy: whatever it waits for, it is no
 * partner. */
static void nobody_waits_beside_an_idle_worker(void)
{
    struct step *steps = calloc(trace->count, sizeof *steps);
    for (uint32_t i = 0; i < trace->count; i++)
        steps[i] = (struct step){run.served[i], i};
    qsort(steps, trace->count, sizeof *steps, by_worker_and_start);
    for (uint32_t i = 0; i < trace->count; i++) {
        const int64_t from = trace->jobs[i].arrival_ns, to = run.served[i].start_ns;
        assert_int_equal(busy_ns(steps, from, to), (to - from) * options.workers);
    }
    free(steps);
}

/* Jobs of four modes beside the same jobs, all exact: no worker idles for the sake of a batch, and
 * the mean wait is the same.  Only the order differs: who shares the mode of an older job overtakes
 * others, as with LoRA sets. */
static void no_job_waits_for_a_partner_of_its_mode(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 12; seed++) {
        const uint32_t workers = 1 + (uint32_t)seed % 3;
        options.batch = 4;
        trace_of_modes(seed, 300 * workers, false);
        simulate(KILN_SIM_KILN, workers, 0);
        nobody_waits_beside_an_idle_worker();
        const double exact_s = report.wait_mean_s;
        assert_true(exact_s > 0.1);
        trace_of_modes(seed, 300 * workers, true);
        simulate(KILN_SIM_KILN, workers, 0);
        nobody_waits_beside_an_idle_worker();
        assert_float_equal(report.wait_mean_s, exact_s, 1e-9);
    }
}

/* The first to come is the first to start, whatever its set. */
static void fifo_is_first_in_first_out(void **state)
{
    (void)state;
    random_state = 99;
    random_trace(500);
    simulate(KILN_SIM_FIFO, 5, 0.7);
    for (uint32_t i = 1; i < trace->count; i++) {
        const struct kiln_sim_served *a = &run.served[i - 1], *b = &run.served[i];
        int64_t switch_ns = 700000000;
        assert_true(a->start_ns - a->switched * switch_ns <= b->start_ns - b->switched * switch_ns);
    }
}

static void equal_input_gives_equal_output(void **state)
{
    (void)state;
    random_state = 7;
    random_trace(800);
    options.noise = 0.3;
    for (int i = 0; i < 3; i++) {
        struct kiln_text first = {0}, again = {0};
        simulate(policies[i], 6, 0.4);
        kiln_sim_report_json(&report, &first);
        kiln_sim_report_text(&report, &options, &first);
        simulate(policies[i], 6, 0.4);
        kiln_sim_report_json(&report, &again);
        kiln_sim_report_text(&report, &options, &again);
        assert_string_equal(first.at, again.at);
        kiln_text_release(&first);
        kiln_text_release(&again);
    }
}

/* Noise keeps the mean, is the same for every policy, and follows the seed. */
static void noise_is_seeded(void **state)
{
    struct kiln_text text = {0};
    (void)state;
    kiln_text_puts(&text, "service_s\n");
    for (int i = 0; i < 4000; i++)
        kiln_text_puts(&text, "2\n");
    read_text(text.at);
    kiln_text_release(&text);
    options.noise = 0.5;
    simulate(KILN_SIM_FIFO, 3, 0);
    double sum_s = report.work_s;
    assert_float_equal(sum_s / 4000, 2, 0.1);
    simulate(KILN_SIM_KILN, 3, 0);
    assert_float_equal(report.work_s, sum_s, 1e-6);
    options.seed = 2;
    simulate(KILN_SIM_FIFO, 3, 0);
    assert_true(fabs(report.work_s - sum_s) > 1e-3);
}

static void too_much_work_is_refused(void **state)
{
    struct kiln_text text = {0};
    (void)state;
    kiln_text_puts(&text, "service_s\n");
    for (int i = 0; i < 4000; i++)
        kiln_text_puts(&text, "2592000\n");
    read_text(text.at);
    kiln_text_release(&text);
    options = (struct kiln_sim_options){.workers = 1, .window = 1, .base_s = 1};
    assert_int_equal(kiln_sim(trace, &options, &run, &err), KILN_BAD_INPUT);
    assert_non_null(strstr(err.text, "seconds of work"));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, reset, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(the_first_load_is_a_switch),
        TEST(files_are_fetched_once_while_the_disk_has_room),
        TEST(the_policy_knows_what_is_on_the_disks),
        TEST(alternating_sets),
        TEST(a_long_job_is_a_bound),
        TEST(no_lora_is_a_set),
        TEST(waits_begin_at_the_arrival),
        TEST(an_idle_worker_with_the_set_is_found),
        TEST(empty_service_comes_from_the_cost_model),
        TEST(deadlines_are_counted),
        TEST(the_nearest_rank_is_taken),
        TEST(the_gap_by_hand),
        TEST(the_gap_needs_two_that_wait),
        TEST(a_pair_begins_anew),
        TEST(kiln_is_fairer_than_fifo),
        TEST(random_runs_keep_the_books),
        TEST(no_job_waits_for_a_partner_of_its_mode),
        TEST(fifo_is_first_in_first_out),
        TEST(equal_input_gives_equal_output),
        TEST(noise_is_seeded),
        TEST(too_much_work_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
