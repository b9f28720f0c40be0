/* ops_rig.c - see ops_rig.h. */
#include "tests/gpu/ops_rig.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kernels/floats.h"
#include "tests/support/measure.h"
#include "tests/support/random.h"

#define POOL (1 << 20) /* values drawn once; operands are stretches of it, one behind the other */

/* Shared with the processes of the groups. */
static struct tally {
    int passed, failed;
    size_t group; /* the one that runs */
    bool over;    /* the process has ended where it should */
} * tally;

/* --- operands --------------------------------------------------------------------------------- */

struct sides sides_open(void)
{
    return (struct sides){kt_scope_new(KT_CPU), kt_scope_new(0)};
}

void sides_close(struct sides *s, const char *what)
{
    struct kiln_error err;
    if (kt_scope_check(s->cpu, &err) || kt_scope_check(s->gpu, &err))
        verdict(false, what, err.text);
    kt_scope_free(s->cpu);
    kt_scope_free(s->gpu);
}

/* Sums of four uniform numbers: bell-shaped, of variance 1, between -3.5 and 3.5. */
static const float *pool(void)
{
    static float *values;
    if (values)
        return values;
    struct test_random random = {1};
    values = malloc(POOL * sizeof *values);
    if (!values)
        abort();
    for (int i = 0; i < POOL; i++) {
        const uint64_t bits = test_random_u64(&random);
        const double sum = (double)(bits & 0xffff) + (double)(bits >> 16 & 0xffff) +
                           (double)(bits >> 32 & 0xffff) + (double)(bits >> 48);
        values[i] = kiln_rounded((float)((sum / 65535 - 2) * sqrt(3)), KILN_BF16);
    }
    return values;
}

kt operand(struct kt_scope *s, enum kt_dtype dtype, uint64_t seed, double size, int64_t rows,
           int64_t cols)
{
    const int64_t shape[2] = {rows, cols};
    const size_t count = (size_t)(rows * (cols ? cols : 1));
    float *host = malloc(count * sizeof *host);
    struct test_random random = {seed};
    if (!host)
        abort();
    for (size_t at = 0; at < count; at += POOL / 2) {
        const float *from = pool() + test_random_below(&random, POOL / 2);
        const size_t part = count - at < POOL / 2 ? count - at : POOL / 2;
        uint64_t signs = 0; /* of its own, or two operands would share whole stretches */
        for (size_t i = 0; i < part; i++, signs >>= 1) {
            signs = i % 64 ? signs : test_random_u64(&random);
            host[at + i] = from[i] * (float)(signs & 1 ? size : -size);
        }
    }
    kt x = kt_from_host(s, host, KT_F32, dtype, cols ? 2 : 1, shape);
    free(host);
    return x;
}

kt angles(struct kt_scope *s, bool sine, int64_t rows, int64_t half)
{
    float *host = malloc((size_t)(rows * half) * sizeof *host);
    if (!host)
        abort();
    for (int64_t i = 0; i < rows * half; i++) {
        const double angle = (double)(i / half) * pow(256, -(double)(i % half) / (double)half);
        host[i] = (float)(sine ? sin(angle) : cos(angle));
    }
    kt x = kt_from_host(s, host, KT_F32, KT_F32, 2, (int64_t[]){rows, half});
    free(host);
    return x;
}

/* --- labels ----------------------------------------------------------------------------------- */

char label[160];

const char *part(const char *of)
{
    static char text[sizeof label + 32];
    snprintf(text, sizeof text, "%s, %s", label, of);
    return text;
}

/* --- verdicts --------------------------------------------------------------------------------- */

void verdict(bool good, const char *what, const char *measured)
{
    printf("%s %-52s %s\n", good ? "PASS" : "FAIL", what, measured);
    fflush(stdout);
    *(good ? &tally->passed : &tally->failed) += 1;
}

static int64_t count_of(kt x)
{
    int64_t count = 1;
    for (int dim = 0; kt_size(x, dim) > 0; dim++)
        count *= kt_size(x, dim);
    return count;
}

/* The values, or NULL with the failure told. */
static float *floats(struct kt_scope *s, const char *what, kt x, int64_t count)
{
    struct kiln_error err;
    float *values = malloc((size_t)count * sizeof *values);
    if (!values)
        abort();
    kt_to_host_f32(s, x, values, (size_t)count);
    if (kt_scope_check(s, &err) == 0)
        return values;
    verdict(false, what, err.text);
    free(values);
    return NULL;
}

/* Both sides' values; false, with the failure told, where one cannot be had. */
static bool both(struct sides *s, const char *what, kt got, kt want, float *ret[2], int64_t *count)
{
    *count = count_of(want);
    ret[0] = floats(s->gpu, what, got, *count);
    /* An operand of a comparison on the GPU alone lives there, too. */
    ret[1] = ret[0] ? floats(s->cpu ? s->cpu : s->gpu, what, want, *count) : NULL;
    if (!ret[1])
        free(ret[0]);
    return ret[1] != NULL;
}

void check_relative(struct sides *s, const char *what, kt got, kt want, double limit)
{
    float *v[2];
    int64_t count;
    char text[96];
    if (!both(s, what, got, want, v, &count))
        return;
    double error = 0, size = 0;
    for (int64_t i = 0; i < count; i++) {
        error += pow((double)v[0][i] - (double)v[1][i], 2);
        size += pow((double)v[1][i], 2);
    }
    const double share = sqrt(error / fmax(size, 1e-30));
    snprintf(text, sizeof text, "relative %.2e (limit %.0e)", share, limit);
    verdict(share <= limit, what, text);
    free(v[0]), free(v[1]);
}

void check_rounded(struct sides *s, const char *what, kt got, kt want, int stages, double scale)
{
    float *v[2];
    int64_t count, other = 0;
    char text[96];
    if (!both(s, what, got, want, v, &count))
        return;
    double worst = 0;
    for (int64_t i = 0; i < count; i++) {
        const double unit = (fabs((double)v[1][i]) + scale) / 128 + 1e-30;
        const double off = fabs((double)v[0][i] - (double)v[1][i]) / unit;
        worst = test_worse(worst, off);
        other += !(off <= 0);
    }
    snprintf(text, sizeof text, "worst %.2f units (limit %d), %.3f %% not equal", worst, stages,
             100.0 * (double)other / (double)count);
    verdict(worst <= stages && (double)other <= 0.02 * (double)count + 2, what, text);
    free(v[0]), free(v[1]);
}

void check_same(struct sides *s, const char *what, kt got, kt want)
{
    struct sides gpu = {NULL, s->gpu};
    float *v[2];
    int64_t count, other = 0;
    char text[64];
    if (!both(&gpu, what, got, want, v, &count))
        return;
    for (int64_t i = 0; i < count; i++)
        other += memcmp(&v[0][i], &v[1][i], sizeof v[0][i]) != 0;
    snprintf(text, sizeof text, "%lld of %lld differ", (long long)other, (long long)count);
    verdict(other == 0, what, text);
    free(v[0]), free(v[1]);
}

/* --- groups ----------------------------------------------------------------------------------- */

/* A device that has faulted stays so for its process. */
static bool device_works(void)
{
    struct kt_scope *s = kt_scope_new(0);
    kt_wait(s);
    const bool works = kt_scope_check(s, NULL) == 0;
    kt_scope_free(s);
    return works;
}

/* Ends the process of a group, all that there is to say being said. */
static void leave(void)
{
    tally->over = true;
    _exit(0);
}

/* Runs the groups from `from` on, in this process; ends it. */
static void run_from(const struct group *groups, size_t count, size_t from, const char *filter)
{
    struct kiln_error err;
    if (kt_device_open(0, &err)) {
        verdict(false, "cuda:0", err.text);
        leave();
    }
    for (tally->group = from; tally->group < count; tally->group++) {
        if (!strstr(groups[tally->group].name, filter))
            continue;
        printf("-- %s\n", groups[tally->group].name);
        groups[tally->group].run();
        if (!device_works()) {
            verdict(false, groups[tally->group].name, "the device has faulted");
            leave();
        }
    }
    leave();
}

/* What became of a process that has not left as it should. */
static const char *end_of(int status)
{
    static char text[48];
    if (WIFSIGNALED(status))
        return strsignal(WTERMSIG(status));
    snprintf(text, sizeof text, "ended early with status %d", WEXITSTATUS(status));
    return text;
}

static bool any_named(const struct group *groups, size_t count, const char *filter)
{
    for (size_t i = 0; i < count; i++)
        if (strstr(groups[i].name, filter))
            return true;
    return false;
}

int run_groups(const struct group *groups, size_t count, const char *filter)
{
    if (!any_named(groups, count, filter)) {
        fprintf(stderr, "no group has \"%s\" in its name\n", filter);
        return 1;
    }
    tally = mmap(NULL, sizeof *tally, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (tally == MAP_FAILED)
        abort();
    for (size_t from = 0; from < count; from = tally->group + 1) {
        int status = 0;
        tally->group = from;
        tally->over = false;
        fflush(stdout);
        const pid_t child = fork();
        if (child == 0)
            run_from(groups, count, from, filter);
        if (child < 0 || waitpid(child, &status, 0) != child)
            abort();
        if (!tally->over)
            verdict(false, groups[tally->group].name, end_of(status));
    }
    printf("%d passed, %d failed\n", tally->passed, tally->failed);
    return tally->failed;
}
