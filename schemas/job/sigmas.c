/* sigmas.c - the sigmas whose latents a job stores.
 *
 * The sigmas of a schedule depend on the model and the number of steps.  So a worker stores the
 * states that are nearest to the requested sigmas, and records their own sigmas.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "schemas/job/draft.h"

/* Keeps the sigmas in falling order; false for one out of range, given twice, or one too many. */
static bool add_sigma(double sigmas[KILN_SIGMAS_MAX], uint32_t *count, double sigma)
{
    uint32_t at = *count;
    sigma = nearbyint(sigma * 1e4) / 1e4; /* so that its text says the same */
    if (!(sigma >= 0 && sigma <= 1) || at == KILN_SIGMAS_MAX)
        return false;
    for (; at > 0 && sigmas[at - 1] <= sigma; at--) {
        if (sigmas[at - 1] == sigma)
            return false;
        sigmas[at] = sigmas[at - 1];
    }
    sigmas[at] = sigma;
    (*count)++;
    return true;
}

bool kiln_sigmas_parse(const char *text, double sigmas[KILN_SIGMAS_MAX], uint32_t *ret_count)
{
    *ret_count = 0;
    for (;;) {
        size_t len = strspn(text, "0123456789.");
        struct kiln_json_value number = {KILN_JSON_NUMBER, false, text, len};
        double sigma;
        if (len == 0 || len > 16 || !kiln_json_double(&number, &sigma) ||
            !add_sigma(sigmas, ret_count, sigma))
            return false;
        text += len;
        if (*text == '\0')
            return true;
        if (*text++ != ',')
            return false;
    }
}

size_t kiln_sigmas_text(const double *sigmas, uint32_t count, char *out, size_t size)
{
    size_t len = 0;
    if (size > 0)
        out[0] = '\0';
    for (uint32_t i = 0; i < count && len < size; i++)
        len += (size_t)snprintf(out + len, size - len, "%s%.4g", i ? "," : "", sigmas[i]);
    return len;
}

static bool read_list(const struct kiln_json_value *value, struct kiln_job *job)
{
    struct kiln_json_reader reader;
    struct kiln_json_value element;
    struct kiln_error err;
    bool more;
    if (kiln_json_open(&reader, value->text, value->len, KILN_JSON_ARRAY, &err))
        return false;
    while (kiln_json_next(&reader, NULL, &element, &more, &err) == 0) {
        double sigma;
        if (!more)
            return job->sigma_count > 0;
        if (element.type != KILN_JSON_NUMBER || !kiln_json_double(&element, &sigma) ||
            !add_sigma(job->sigmas, &job->sigma_count, sigma))
            return false;
    }
    return false;
}

int kiln_draft_sigmas(const struct kiln_draft *draft, struct kiln_job *job, struct kiln_error *err)
{
    const struct kiln_json_value *value = &draft->values[KILN_JOB_KEY_SIGMAS];
    char text[KILN_SIGMAS_TEXT_MAX];
    if (!kiln_draft_has(draft, KILN_JOB_KEY_SIGMAS))
        return 0;
    if (kiln_draft_has(draft, KILN_JOB_KEY_LATENTS) && job->latents != KILN_LATENTS_TRAJECTORY)
        return kiln_fail(err, KILN_BAD_INPUT,
                         "sigmas needs latents \"trajectory\", but latents is %s",
                         kiln_latents_name(job->latents));
    bool good =
        value->type == KILN_JSON_ARRAY ? read_list(value, job)
        : value->type == KILN_JSON_STRING && kiln_json_string(value, text, sizeof text, NULL)
            ? kiln_sigmas_parse(text, job->sigmas, &job->sigma_count)
            : false;
    if (!good)
        return kiln_fail(err, KILN_BAD_INPUT, "sigmas must be %s",
                         kiln_job_keys[KILN_JOB_KEY_SIGMAS].help);
    /* The finished latent alone is what "final" says. */
    bool final = job->sigma_count == 1 && job->sigmas[0] == 0;
    job->latents = final ? KILN_LATENTS_FINAL : KILN_LATENTS_TRAJECTORY;
    job->sigma_count = final ? 0 : job->sigma_count;
    return 0;
}
