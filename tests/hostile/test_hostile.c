/* test_hostile.c - whoever can write to Redis can hurt only what is their own.
 *
 * A good client sends lines, and at the same time somebody else sends thousands of entries, events,
 * orders, assignments, beats and keys that no program of ours would: with a producer's least
 * rights, with an operator's, with all.  What must hold is in check.c.  What breaks it is made
 * smaller (minimise.c) and printed as lines for redis-cli.
 *
 *     make hostile SEEDS=5             seeds 1 to 5
 *     make hostile SEED=3              that seed alone
 *     make hostile CASE=index-wraps    one known defect
 *
 * The same seed sends the same commands; when the programs meet them is not the same twice.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/hostile/attack.h"
#include "tests/hostile/cases.h"
#include "tests/hostile/check.h"
#include "tests/hostile/minimise.h"

#define ROUNDS_SHORT 4 /* of each of the rights */
#define ATTACKS 48     /* in a round */
#define ROUND_LIMIT_S 60
#define CASE_LIMIT_S 20
#define TRIALS 60 /* of minimising */
#define TRIES 3   /* of a trial: what stands on one page with what is a matter of moments */
#define TRIAL_LIMIT_S 15
#define PRINTED 2000 /* characters of a line of a reproduction; the file has all */

static struct hostile_site site;
static uint64_t only_seed, seed_count, rounds;
static char only_case[64];

/* --- sending ------------------------------------------------------------------------------------
 */
/* The commands, and among them a call of the good client; then every promise is looked at. */
static void send_and_check(const struct hostile_list *list, double limit_s,
                           struct hostile_verdict *ret)
{
    double began = kiln_test_now_s();
    struct hostile_good good;
    unsigned lines = 0;
    hostile_good_begin(&site, &good);
    for (size_t i = 0; i < list->count; i++) {
        for (; lines < HOSTILE_GOOD_LINES && i * HOSTILE_GOOD_LINES >= lines * list->count; lines++)
            hostile_good_line(&site, &good, lines);
        hostile_site_send(&site, list->at[i]);
    }
    for (; lines < HOSTILE_GOOD_LINES; lines++)
        hostile_good_line(&site, &good, lines);
    bool received = hostile_good_end(&site, &good, limit_s);
    double left = limit_s - (kiln_test_now_s() - began);
    hostile_check(&site, list, !received || left < 1 ? 1 : left, ret);
    if (!received)
        *ret = (struct hostile_verdict){"a good client gets its receipt", "intake stands still"};
}

static bool fails_alike(void *arg, const struct hostile_list *list)
{
    const struct hostile_verdict *wanted = arg;
    struct hostile_verdict verdict = {0};
    for (int i = 0; i < TRIES && !verdict.broken; i++) {
        hostile_site_reset(&site);
        send_and_check(list, TRIAL_LIMIT_S, &verdict);
        if (!verdict.broken)
            hostile_check_commands(&site, &verdict);
    }
    printf("  %zu commands: %s\n", list->count, verdict.broken ? verdict.broken : "kept");
    return verdict.broken && strcmp(verdict.broken, wanted->broken) == 0;
}

static void print_all(const struct hostile_list *list, const char *name)
{
    char path[64];
    snprintf(path, sizeof path, "/tmp/kiln-hostile-%s.redis", name);
    FILE *file = fopen(path, "we");
    for (size_t i = 0; i < list->count; i++) {
        char *line = NULL;
        size_t size = 0;
        FILE *memory = open_memstream(&line, &size);
        if (!memory)
            break;
        hostile_command_print(list->at[i], memory);
        fclose(memory);
        if (file)
            fputs(line, file);
        printf("  [%s] %.*s%s", hostile_rights_names[list->at[i]->rights], PRINTED, line,
               size > PRINTED ? "...\n" : "");
        free(line);
    }
    if (file && fclose(file) == 0)
        printf("  the same, to be sent by: redis-cli -s SOCKET <%s\n", path);
}

/* What the round has sent; if that alone does not do it, all that was sent since the beginning. */
static void show_smallest(struct hostile_list *round, struct hostile_list *before,
                          struct hostile_verdict *verdict, const char *name)
{
    struct hostile_list *smallest = round;
    size_t whole = round->count;
    int trials = hostile_minimise(round, fails_alike, verdict, TRIALS);
    if (trials == 0) {
        for (size_t i = 0; i < round->count; i++)
            hostile_list_add(before, hostile_command_copy(round->at[i]));
        whole = before->count;
        trials = hostile_minimise(before, fails_alike, verdict, TRIALS);
        smallest = trials ? before : round;
    }
    if (trials)
        printf("%zu of %zu commands do it (%d trials):\n", smallest->count, whole, trials);
    else
        printf("it does not come again by the same commands; the round's were:\n");
    print_all(smallest, name);
}

/* --- one seed -----------------------------------------------------------------------------------
 */
static void make_round(struct test_random *random, enum hostile_rights rights, unsigned *number,
                       struct hostile_list *list)
{
    char victim[48];
    snprintf(victim, sizeof victim, "good-%u.0", site.calls);
    for (int i = 0; i < ATTACKS; i++)
        hostile_attack(random, rights, (*number)++, victim, list);
}

static bool attack_with(uint64_t seed, enum hostile_rights rights)
{
    struct test_random random = {seed * HOSTILE_RIGHTS + rights};
    struct hostile_verdict verdict = {0};
    struct hostile_list before = {0};
    unsigned number = 0, declined = site.declined;
    double began = kiln_test_now_s();
    hostile_site_reset(&site);
    for (uint64_t round = 0; round < rounds && !verdict.broken; round++) {
        struct hostile_list list = {0};
        make_round(&random, rights, &number, &list);
        send_and_check(&list, ROUND_LIMIT_S, &verdict);
        if (!verdict.broken && round + 1 == rounds)
            hostile_check_commands(&site, &verdict);
        if (verdict.broken) {
            char name[64];
            snprintf(name, sizeof name, "%llu-%s", (unsigned long long)seed,
                     hostile_rights_names[rights]);
            printf("seed %llu, rights %s, round %llu BREAKS A PROMISE: %s: %s\n",
                   (unsigned long long)seed, hostile_rights_names[rights],
                   (unsigned long long)round, verdict.broken, verdict.detail);
            show_smallest(&list, &before, &verdict, name);
        }
        for (size_t i = 0; i < list.count && !verdict.broken; i++)
            hostile_list_add(&before, hostile_command_copy(list.at[i]));
        hostile_list_release(&list);
    }
    printf("seed %llu, rights %s: %zu commands, %u declined by Redis, %lld jobs, %lld lines "
           "refused, %.1f s\n",
           (unsigned long long)seed, hostile_rights_names[rights], before.count,
           site.declined - declined, kiln_test_count(site.stack, "SELECT count(*) FROM job"),
           kiln_test_count(site.stack, "SELECT count(*) FROM intake_refusal"),
           kiln_test_now_s() - began);
    hostile_list_release(&before);
    return verdict.broken == NULL;
}

static void nobody_stops_the_others(void **state)
{
    (void)state;
    int broken = 0;
    uint64_t first = only_seed ? only_seed : 1, last = only_seed ? only_seed : seed_count;
    for (uint64_t seed = first; seed <= last; seed++)
        for (int rights = 0; rights < HOSTILE_RIGHTS; rights++)
            broken += !attack_with(seed, (enum hostile_rights)rights);
    assert_int_equal(broken, 0);
}

/* --- what is known ------------------------------------------------------------------------------
 */
static bool keeps(const struct hostile_case *known)
{
    struct hostile_list list = {0};
    struct hostile_verdict verdict;
    hostile_site_reset(&site);
    hostile_case_commands(known, &list);
    send_and_check(&list, CASE_LIMIT_S, &verdict);
    if (!verdict.broken && known->sql && kiln_test_count(site.stack, known->sql) > 0)
        verdict = (struct hostile_verdict){"nothing comes of it but a refusal", ""};
    printf("%-38s %s%s\n", known->name, verdict.broken ? "BROKEN: " : "kept",
           verdict.broken ? verdict.broken : "");
    if (verdict.broken) {
        printf("  %s\n", verdict.detail[0] ? verdict.detail : known->sql);
        print_all(&list, known->name);
    }
    hostile_list_release(&list);
    return verdict.broken == NULL;
}

static void known_defects_stay_repaired(void **state)
{
    (void)state;
    int broken = 0, ran = 0;
    for (const struct hostile_case *known = hostile_cases; known->name; known++)
        if (!only_case[0] || strcmp(only_case, known->name) == 0) {
            broken += !keeps(known);
            ran++;
        }
    assert_int_not_equal(ran, 0);
    assert_int_equal(broken, 0);
}

/* --- whether it would be noticed ----------------------------------------------------------------
 */
static void breaches_are_noticed(void **state)
{
    (void)state;
    struct hostile_list none = {0};
    struct hostile_verdict verdict;
    hostile_site_reset(&site);
    send_and_check(&none, ROUND_LIMIT_S, &verdict);
    assert_null(verdict.broken);
    assert_true(hostile_check_notices(&site));
}

/* A field of the one and a member of the other are needed. */
static bool needs_two(void *arg, const struct hostile_list *list)
{
    bool first = false, second = false;
    (void)arg;
    for (size_t i = 0; i < list->count; i++)
        for (size_t w = 0; w < list->at[i]->count; w++) {
            first = first || strcmp(list->at[i]->words[w].at, "wanted") == 0;
            second = second || strstr(list->at[i]->words[w].at, "\"guilty\":1") != NULL;
        }
    return first && second;
}

static void the_smallest_reproduction_is_found(void **state)
{
    (void)state;
    struct hostile_list list = {0};
    for (int i = 0; i < 200; i++) {
        const char *value = i == 151 ? "{\"a\":1,\"guilty\":1,\"b\":[2]}" : "{\"a\":1}";
        hostile_list_add(&list, hostile_command_of(
                                    HOSTILE_ALL, (const char *const[]){"XADD", "key", "*",
                                                                       i == 17 ? "wanted" : "other",
                                                                       "x", "job", value, NULL}));
    }
    int trials = hostile_minimise(&list, needs_two, NULL, 1000);
    assert_int_equal(list.count, 2);
    assert_in_range(trials, 5, 100);
    assert_int_equal(list.at[0]->count, 5);
    assert_string_equal(list.at[0]->words[3].at, "wanted");
    assert_int_equal(list.at[1]->count, 5);
    assert_string_equal(list.at[1]->words[4].at, "{\"guilty\":1}");
    hostile_list_release(&list);
}

static void the_same_seed_sends_the_same(void **state)
{
    (void)state;
    struct hostile_list one = {0}, two = {0};
    struct test_random first = {7}, second = {7};
    for (unsigned i = 0; i < 3000; i++) {
        enum hostile_rights rights = (enum hostile_rights)(i % HOSTILE_RIGHTS);
        hostile_attack(&first, rights, i, "t", &one);
        hostile_attack(&second, rights, i, "t", &two);
    }
    assert_int_equal(one.count, two.count);
    for (size_t i = 0; i < one.count; i++) {
        assert_int_equal(one.at[i]->count, two.at[i]->count);
        for (size_t w = 0; w < one.at[i]->count; w++) {
            assert_int_equal(one.at[i]->words[w].len, two.at[i]->words[w].len);
            assert_memory_equal(one.at[i]->words[w].at, two.at[i]->words[w].at,
                                one.at[i]->words[w].len);
        }
    }
    hostile_list_release(&one);
    hostile_list_release(&two);
}

static uint64_t number_of(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name);
    uint64_t value = text && text[0] ? strtoull(text, NULL, 10) : otherwise;
    unsetenv(name); /* programs take such words for settings */
    return value;
}

int main(void)
{
    const char *name = getenv("HOSTILE_CASE");
    snprintf(only_case, sizeof only_case, "%s", name ? name : "");
    unsetenv("HOSTILE_CASE");
    only_seed = number_of("HOSTILE_SEED", 0);
    seed_count = number_of("HOSTILE_SEEDS", 1);
    rounds = number_of("HOSTILE_ROUNDS", ROUNDS_SHORT);
    setvbuf(stdout, NULL, _IOLBF, 0);
    hostile_site_start(&site);
    const struct CMUnitTest all[] = {
        cmocka_unit_test(the_same_seed_sends_the_same),
        cmocka_unit_test(the_smallest_reproduction_is_found),
        cmocka_unit_test(breaches_are_noticed),
        cmocka_unit_test(known_defects_stay_repaired),
        cmocka_unit_test(nobody_stops_the_others),
    };
    const struct CMUnitTest one[] = {cmocka_unit_test(known_defects_stay_repaired)};
    int failed = only_case[0] ? cmocka_run_group_tests_name("one case", one, NULL, NULL)
                              : cmocka_run_group_tests_name("all", all, NULL, NULL);
    hostile_site_stop(&site);
    return failed;
}
