/* verbs_measure.c - rows of the verbs that measure; the program kiln-bench has them. */
#include "scheduler/cli/verb_tables.h"

static const struct kiln_option bench_options[] = {
    {"lines", "N", "jobs to send (enqueue 500000, queue 100000 and a tenth end to end)"},
    {"jobs", "N",
     "queue: at scale, through simulated workers; restart: jobs that wait (100000); recovery: "
     "workers to kill (8); fleet: pictures a device (48); gallery: searches (2400); "
     "gallery-load: seconds of load (60); embed: texts (300); teleport-stream: jobs (5000)"},
    {"workers", "N",
     "simulated workers of queue --jobs (64) or policy (1000); gallery: searches at a time (2)"},
    {"devices", "LIST", "fleet: how many devices, one worker each (1,2)"},
    {"sizes", "LIST", "fleet: sizes that take turns (512x512,768x512)"},
    {"loras", "LIST", "fleet: LoRAs that take turns; an empty name is none (none)"},
    {"step-ms", "MS", "fleet: what a step of a batch takes on the test card (10)"},
    {"embedder", "DIR",
     "embed, routing, gallery-load: a text embedder, such as all-MiniLM-L6-v2 or potion-base-8M; routing: or "
     "builtin, the text encoder of the model; gallery-load: or auto, the same"},
    {"apart", NULL,
     "gallery-load: run browsers and workers on other processors than the gallery, which keeps those "
     "that the bench was started on (taskset)"},
    {"repeats", "PERCENT", "teleport-stream: jobs that repeat an earlier prompt (30)"},
    {"rewordings", "PERCENT", "teleport-stream: jobs that reword one (15)"},
    {"mode", "MODE", "teleport-stream: how its jobs are rendered, such as coarse=4+2 (exact)"},
    {"set-dir", "DIR", "routing: loras.json and the labelled prompts (tests/quality/routing)"},
    {"fit", "FILE",
     "routing: only fit the weights on dev.jsonl and write them: as C, or with --embedder DIR "
     "for DIR/kiln_router.json"},
    {"wrong", "PART",
     "routing: only print the prompts of dev, test, sealed or named that went wrong"},
    {NULL, NULL, NULL}};
static const struct kiln_option sim_options[] = {
    {"trace", "FILE.csv", "the jobs; - is stdin"},
    {"workers", "N", "equal workers (8)"},
    {"policy", "NAME", "kiln, fifo or affinity (kiln)"},
    {"window", "W", "how many waiting jobs affinity looks ahead (32)"},
    {"lora-switch-s", "S", "seconds to change a worker's LoRA set (1)"},
    {"lora-fetch-s", "S", "seconds to fetch a LoRA file that a worker's disk lacks (0)"},
    {"lora-disk", "N", "files of LoRAs that a worker's disk keeps (256)"},
    {"base-s", "S", "seconds of a 1024x1024 picture of 8 steps without a service_s (1)"},
    {"noise", "SHARE", "standard deviation of a picture's time over its mean (0)"},
    {"batch", "N", "kiln: pictures of an assignment (1)"},
    {"batch-fixed", "SHARE", "of a picture's time that a batch takes once, however large (0)"},
    {"hits", "PERCENT", "jobs without LoRAs that begin from a stored latent (0)"},
    {"depths", "LIST",
     "steps that these skip, with weights, such as 1:3,2:1 (1); of coarse runs small steps, as far "
     "as they have more"},
    {"lookup-ms", "MS", "that a look-up holds up its job, hit or not (0.2)"},
    {"seed", "N", "of the noise and of the hits (0)"},
    {"schedule", "FILE", "write what every job got: worker, start, end, as CSV"},
    {NULL, NULL, NULL}};

const struct kiln_verb kiln_verbs_measure[] = {
    {.name = "sim",
     .args = "--trace FILE.csv [--workers N] [--policy kiln|fifo|affinity]",
     .summary = "what the policy makes of a trace, under virtual time",
     .examples = "kiln sim --trace day.csv --workers 64 --lora-switch-s 0.3\n"
                 "kiln sim --trace day.csv --policy affinity --window 32 --json\n"
                 "kiln sim --trace day.csv --hits 20 --depths 1:3,6:1 --batch 4",
     .more = "Columns of the trace, all optional: arrival_s, tenant, width, height, steps, mode "
             "(such as coarse=4+3), loras (a+b), priority, max_wait_s, service_s (seconds of "
             "compute; empty: by size, steps and mode, see --base-s).  A worker begins with "
             "nothing loaded; loading another LoRA set, or none, is a switch.  Waiting ends when "
             "the compute of the job's own picture starts.  With --hits the trace runs three "
             "times: in full, with stored latents of which the policy does not know, and with "
             "those that it groups by the steps left; the table compares them.",
     .options = sim_options,
     .settings = KILN_SETTINGS_LENIENT,
     .program = "kiln-bench"},
    {.name = "bench",
     .args = "enqueue|queue|restart|recovery|policy|fleet|gallery|gallery-load|embed|reuse|"
             "teleport-stream|routing|"
             "quality|coarse|teleport|judge|captions|engine "
             "[--lines N] [--jobs N] [--workers N] [--devices LIST]",
     .summary = "measure the queue on private servers, the quality of the pictures, or the engine",
     .examples =
         "kiln bench enqueue               lines a second into Redis\n"
         "kiln bench queue                 jobs a second into Postgres, and through a worker\n"
         "kiln bench queue --jobs 1000000  the same at scale: 64 simulated workers, memory, "
         "tables\n"
         "kiln bench restart               how soon a new scheduler assigns the first of 100000 "
         "jobs\n"
         "kiln bench recovery              how soon the job of a killed worker is assigned again\n"
         "kiln bench policy                what a decision costs with 1000000 jobs and 1000 "
         "workers\n"
         "kiln bench fleet --device cuda:all --model DIR --devices 1,2,4\n"
         "                                 what more GPUs are worth, and how idle they are\n"
         "kiln bench gallery --config FILE\n"
         "                                 searches in the gallery of a ledger, 20 a second\n"
         "kiln bench gallery-load --config FILE --embedder DIR\n"
         "                                 searches, pages, thumbnails and commits at once\n"
         "kiln bench embed --embedder DIR  milliseconds a prompt of a text embedder\n"
         "kiln bench reuse                 what looking for a stored latent costs a job\n"
         "kiln bench teleport-stream       what stored latents save on jobs like a gallery's\n"
         "kiln bench routing               which LoRAs prompts get, against labels; what a route "
         "costs\n"
         "kiln bench quality               how much of what prompts say is in the pictures\n"
         "kiln bench coarse                what coarse first saves and loses, for coarse \"auto\"\n"
         "kiln bench teleport              what a start from a stored latent saves and loses\n"
         "kiln bench judge                 looks at pictures that exist, and how alike they are\n"
         "kiln bench captions              how well captions are found by meaning\n"
         "kiln bench engine --device cuda:0    the engine, stage by stage",
     .more = "`kiln bench quality --help` shows the options of that bench; so do coarse, teleport, "
             "judge, captions and engine.",
     .options = bench_options,
     .untouched = (const char *const[]){"quality", "coarse", "teleport", "judge", "captions",
                                        "engine", NULL},
     .words = {1, 1},
     .settings = KILN_SETTINGS_BARE,
     .program = "kiln-bench"},
    {.name = NULL},
};
