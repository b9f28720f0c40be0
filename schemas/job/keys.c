/* keys.c - the table of the keys of a job line. */
#include "schemas/job/keys.h"

#include <stdio.h>
#include <string.h>

#include "schemas/job.h"
#include "schemas/job/inputs.h"
#include "schemas/job/mode.h"
#include "schemas/limits.h"
#include "schemas/names.h"

#define STRING(number) STRING_OF(number)
#define STRING_OF(number) #number

static const char *const kinds[] = {"image", "latent-cache", NULL};
static const char *const latents[] = {"final", "trajectory", "none", NULL};
static const char *const teleports[] = {"off", "auto", NULL};

#define A_NAME "a name of up to " STRING(KILN_NAME_MAX) " " KILN_NAME_RULE
#define A_SIDE                                                                                     \
    "a whole number from " STRING(KILN_SIDE_MIN) " to " STRING(                                    \
        KILN_SIDE_MAX) ", a multiple of " STRING(KILN_SIDE_STEP)

const struct kiln_job_key_row kiln_job_keys[KILN_JOB_KEYS] = {
    [KILN_JOB_KEY_PROMPT] = {"prompt", KILN_JOB_TEXT, 0, KILN_PROMPT_MAX, NULL,
                             "a text of up to 8192 bytes of UTF-8"},
    [KILN_JOB_KEY_NEGATIVE_PROMPT] = {"negative_prompt", KILN_JOB_TEXT, 0, KILN_PROMPT_MAX, NULL,
                                      "a text of up to 8192 bytes of UTF-8"},
    [KILN_JOB_KEY_WIDTH] = {"width", KILN_JOB_WHOLE, KILN_SIDE_MIN, KILN_SIDE_MAX, NULL, A_SIDE},
    [KILN_JOB_KEY_HEIGHT] = {"height", KILN_JOB_WHOLE, KILN_SIDE_MIN, KILN_SIDE_MAX, NULL, A_SIDE},
    [KILN_JOB_KEY_SIZE] =
        {"size", KILN_JOB_SIZE, 0, 0, NULL,
         "a text such as \"1344x768\", \"16:9\" or \"16:9 xl\", or a list of up to " STRING(
             KILN_LIST_MAX) " of them"},
    [KILN_JOB_KEY_STYLE] = {"style", KILN_JOB_STYLE, 0, KILN_NAME_MAX, NULL,
                            "the name of a style, or a list of up to " STRING(
                                KILN_LIST_MAX) " of them"},
    [KILN_JOB_KEY_STYLED] = {"styled", KILN_JOB_NAME, 1, KILN_NAME_MAX, NULL,
                             "the name of the style whose words are already around the prompt"},
    [KILN_JOB_KEY_STEPS] = {"steps", KILN_JOB_WHOLE, KILN_STEPS_MIN, KILN_STEPS_MAX, NULL,
                            "a whole number from " STRING(KILN_STEPS_MIN) " to " STRING(
                                KILN_STEPS_MAX)},
    [KILN_JOB_KEY_GUIDANCE] = {"guidance", KILN_JOB_NUMBER, 0, KILN_GUIDANCE_MAX, NULL,
                               "a number from 0 to " STRING(KILN_GUIDANCE_MAX)},
    [KILN_JOB_KEY_SEED] = {"seed", KILN_JOB_SEED, 0, 0, NULL,
                           "a whole number from 0 to 18446744073709551615, or a range \"100-199\""},
    [KILN_JOB_KEY_COUNT] = {"count", KILN_JOB_WHOLE, 1, KILN_COUNT_MAX, NULL,
                            "a whole number from 1 to " STRING(KILN_COUNT_MAX)},
    [KILN_JOB_KEY_LORAS] =
        {"loras", KILN_JOB_LORAS, 0, KILN_LORAS_MAX, NULL,
         "\"none\", \"auto\", a text such as \"ink:0.8+paper\", or a list of up to " STRING(
             KILN_LORAS_MAX) " of {\"name\": NAME, \"scale\": -4 to 4}"},
    [KILN_JOB_KEY_ROUTED] =
        {"routed", KILN_JOB_TEXT, 1, KILN_ROUTED_MAX, NULL,
         "the words that loras \"auto\" put in front of the prompt, up to " STRING(
             KILN_ROUTED_MAX) " bytes of UTF-8"},
    [KILN_JOB_KEY_MODEL] = {"model", KILN_JOB_NAME, 1, KILN_NAME_MAX, NULL, A_NAME},
    [KILN_JOB_KEY_PRIORITY] = {"priority", KILN_JOB_WHOLE, -KILN_PRIORITY_MAX, KILN_PRIORITY_MAX,
                               NULL,
                               "a whole number from -" STRING(KILN_PRIORITY_MAX) " to " STRING(
                                   KILN_PRIORITY_MAX)},
    [KILN_JOB_KEY_TENANT] = {"tenant", KILN_JOB_NAME, 1, KILN_NAME_MAX, NULL, A_NAME},
    [KILN_JOB_KEY_CUSTOM_ID] =
        {"custom_id", KILN_JOB_TEXT, 1, KILN_CUSTOM_ID_MAX, NULL,
         "a text of 1 to " STRING(
             KILN_CUSTOM_ID_MAX) " bytes without control characters "
                                 "or others that change the direction of text"},
    [KILN_JOB_KEY_KIND] = {"kind", KILN_JOB_CHOICE, 0, 0, kinds, "\"image\" or \"latent-cache\""},
    [KILN_JOB_KEY_LATENTS] = {"latents", KILN_JOB_CHOICE, 0, 0, latents,
                              "\"final\", \"trajectory\" or \"none\""},
    [KILN_JOB_KEY_SIGMAS] = {"sigmas", KILN_JOB_SIGMAS, 0, 1, NULL,
                             "up to " STRING(KILN_SIGMAS_MAX) " different noise levels from 0 to "
                                                              "1, as \"0.9,0.75\" or a list"},
    [KILN_JOB_KEY_COARSE] = {"coarse", KILN_JOB_COARSE, 0, KILN_MODE_MAX - 1, NULL,
                             "\"off\", \"auto\" or \"S+L\": S steps at half the side, then L; "
                             "or \"S+M+L\": S at a quarter, M at half, then L"},
    [KILN_JOB_KEY_COARSE_SIGMA] = {"coarse_sigma", KILN_JOB_NUMBER, 0, 1, NULL,
                                   "a number above 0 and below 1, with up to four decimals"},
    [KILN_JOB_KEY_VARIETY] = {"variety", KILN_JOB_NUMBER, 0, 1, NULL,
                              "a number from 0 (none) to 1, with up to four decimals"},
    [KILN_JOB_KEY_INIT_IMAGE] = {"init_image", KILN_JOB_TEXT, 1, KILN_PATH_MAX, NULL,
                                 "the key of a stored picture, " KILN_INPUT_KEY_FORM
                                 "; kiln enqueue also takes the path of a file and uploads it"},
    [KILN_JOB_KEY_INIT_JOB] = {"init_job", KILN_JOB_WHOLE, 1, 0x1p63, NULL,
                               "the number of a job, 1 or above"},
    [KILN_JOB_KEY_INIT_MASK] = {"init_mask", KILN_JOB_TEXT, 1, KILN_PATH_MAX, NULL,
                                "the key of a stored picture, " KILN_INPUT_KEY_FORM
                                "; kiln enqueue also takes the path of a file and uploads it"},
    [KILN_JOB_KEY_STRENGTH] = {"strength", KILN_JOB_NUMBER, 0, 1, NULL,
                               "a number above 0 and at most 1"},
    [KILN_JOB_KEY_START_SIGMA] = {"start_sigma", KILN_JOB_NUMBER, 0, 1, NULL,
                                  "a number above 0 and at most 1, with up to four decimals"},
    [KILN_JOB_KEY_EDIT] = {"edit", KILN_JOB_BOOL, 0, 1, NULL, "true or false"},
    [KILN_JOB_KEY_PARENT] = {"parent", KILN_JOB_WHOLE, 1, 0x1p63, NULL,
                             "the number of a job, 1 or above"},
    [KILN_JOB_KEY_TELEPORT] = {"teleport", KILN_JOB_CHOICE, 0, 0, teleports, "\"off\" or \"auto\""},
    [KILN_JOB_KEY_ALIKE] = {"alike", KILN_JOB_WHOLE, 0, KILN_ALIKE_MAX, NULL,
                            "a whole number from 0 (as varied as full runs) to 100"},
    [KILN_JOB_KEY_MAX_WAIT_S] = {"max_wait_s", KILN_JOB_WHOLE, 0, KILN_MAX_WAIT_S_MAX, NULL,
                                 "a whole number from 0 (no deadline) to 2592000"},
    [KILN_JOB_KEY_EMBED_METADATA] = {"embed_metadata", KILN_JOB_BOOL, 0, 1, NULL, "true or false"},
    [KILN_JOB_KEY_TEMPLATE] = {"template", KILN_JOB_BOOL, 0, 1, NULL, "true or false"},
};

static_assert(KILN_PROMPT_MAX == 8192 && KILN_MAX_WAIT_S_MAX == 2592000,
              "the help above prints these");

int kiln_job_key_find(const char *name, size_t len)
{
    for (int key = 0; key < KILN_JOB_KEYS; key++) {
        const char *known = kiln_job_keys[key].name;
        if (len > 0 && known[0] == name[0] && strlen(known) == len && memcmp(known, name, len) == 0)
            return key;
    }
    return -1;
}

void kiln_job_key_hint(const char *name, size_t len, char ret[KILN_JOB_KEY_HINT_MAX])
{
    const char *names[KILN_JOB_KEYS];
    for (int key = 0; key < KILN_JOB_KEYS; key++)
        names[key] = kiln_job_keys[key].name;
    const char *near = kiln_nearest(name, len, names, KILN_JOB_KEYS);
    size_t at =
        (size_t)snprintf(ret, KILN_JOB_KEY_HINT_MAX,
                         near ? "did you mean \"%s\"?" : "the keys are %s", near ? near : names[0]);
    for (int key = 1; !near && key < KILN_JOB_KEYS && at < KILN_JOB_KEY_HINT_MAX; key++)
        at += (size_t)snprintf(ret + at, KILN_JOB_KEY_HINT_MAX - at, ", %s", names[key]);
}
