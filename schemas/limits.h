/* limits.h - the bounds of jobs and of what comes with them, in one place.
 *
 * Whatever a user, a file or a server can make grow has its bound here.  The
 * messages that refuse an input print these numbers, so text and code agree.
 */
#ifndef KILN_LIMITS_H
#define KILN_LIMITS_H

#include <assert.h> /* static_assert */
#include <stddef.h>

/* A job line */
#define KILN_PROMPT_MAX (8 * 1024) /* bytes of UTF-8 */
#define KILN_LINE_MAX (64 * 1024)  /* bytes of one line of a job file */
#define KILN_SIDE_MIN 64           /* pixels */
#define KILN_SIDE_MAX 2048
#define KILN_SIDE_STEP 16 /* sides are multiples of this */
#define KILN_SIDE_DEFAULT 1024
#define KILN_STEPS_MIN 1
#define KILN_STEPS_MAX 50
#define KILN_STEPS_DEFAULT 8
#define KILN_SIGMA_FIRST_MIN 0.9 /* the noise level that a listed schedule begins at; 1 at most */
#define KILN_GUIDANCE_MAX 30.0
#define KILN_COUNT_MAX 10000    /* pictures of one line */
#define KILN_LORAS_MAX 3        /* LoRAs of one job */
#define KILN_COMBINE_MAX 5 /* stored latents that become the start of one run */
#define KILN_ROUTED_MAX 512     /* bytes that "auto" puts in front of a prompt */
#define KILN_ROUTE_MAX 160      /* bytes of why it chose so */
#define KILN_STEP_LORAS_MAX 4   /* weights that a model has for some of its steps */
#define KILN_LORA_SCALE_MAX 4.0 /* absolute value */
#define KILN_PRIORITY_MAX 10    /* -10 .. 10 */
#define KILN_PRIORITY_BACKFILL (-KILN_PRIORITY_MAX) /* goes only when nothing else waits */
#define KILN_MAX_WAIT_S_MAX (30 * 24 * 3600)
#define KILN_EXPAND_MAX 1000000 /* jobs one template line may make */
#define KILN_SIGMAS_MAX 8       /* noise levels at which states are stored */
#define KILN_LIST_MAX 32        /* entries of a list of sizes or styles */

/* Names: [A-Za-z0-9][A-Za-z0-9._-]*; bytes without the final NUL */
#define KILN_NAME_MAX 64 /* pool, tenant, style, LoRA, model, worker */
#define KILN_BATCH_NAME_MAX 128
#define KILN_CUSTOM_ID_MAX 256 /* any UTF-8 without control characters */

/* A batch and the queue */
#define KILN_BATCH_JOBS_MAX 10000000
#define KILN_ASSIGN_MAX 64                 /* jobs of one assignment */
#define KILN_MESSAGE_MAX (4 * 1024 * 1024) /* bytes of one bus message */

/* What stands in the way of jobs is said within SAID.  A worker reports a server that refuses it at
 * the first failure after TOLD, for which it waits at most PAUSE longer; a command that waits looks
 * every LOOK, for the first time after as long.  The rest is for the servers' answers. */
#define KILN_TROUBLE_SAID_MS 5000
#define KILN_TROUBLE_TOLD_MS 700
#define KILN_TROUBLE_PAUSE_MS 800 /* storage/daemon/outage.h: the fourth of 100, 200, 400, 800 */
#define KILN_TROUBLE_LOOK_MS 2000
/* A worker whose store has not answered for so long gives its jobs to other workers. */
#define KILN_STORE_AWAY_MS 10000

/* Files that come from outside */
#define KILN_CONFIG_FILE_MAX (256 * 1024)
#define KILN_ST_HEADER_MAX (16 * 1024 * 1024) /* safetensors */
#define KILN_ST_TENSORS_MAX 65536
#define KILN_ST_DIMS_MAX 8
#define KILN_ST_NAME_MAX 256
#define KILN_LATENT_FILE_MAX (256 * 1024 * 1024)
#define KILN_OBJECT_KEY_MAX 512
/* A LoRA, which is read into memory, because people replace LoRAs while jobs run.  Rank 512 on
 * every linear layer of the full model is 2.6 GB in BF16. */
#define KILN_LORA_BYTES_MAX ((size_t)4 << 30)
#define KILN_PATH_MAX 4096                       /* bytes of the path of a picture to start from */
#define KILN_PICTURE_FILE_MAX (64 * 1024 * 1024) /* a picture that a job starts from */
#define KILN_PICTURE_SIDE_MAX 16384
#define KILN_PICTURE_PIXELS_MAX (8192 * 8192)
#define KILN_TOKENS_MAX 512 /* prompt tokens after the chat template */

static_assert(KILN_PROMPT_MAX * 2 < KILN_LINE_MAX, "a line holds prompt and negative prompt");
static_assert((long)KILN_ASSIGN_MAX * KILN_LINE_MAX <= KILN_MESSAGE_MAX,
              "an assignment of the largest jobs fits one bus message");
static_assert(KILN_TROUBLE_TOLD_MS + KILN_TROUBLE_PAUSE_MS + KILN_TROUBLE_LOOK_MS <=
                  KILN_TROUBLE_SAID_MS - 1000,
              "trouble is said in time, with a second for the answers of the servers");
static_assert(KILN_SIDE_MAX % KILN_SIDE_STEP == 0 && KILN_SIDE_MIN % KILN_SIDE_STEP == 0,
              "the bounds of a side are allowed sides");

#endif
