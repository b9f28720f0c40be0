/* verbs.h - the functions behind the rows of verb_tables.h, each in a file of its own name. */
#ifndef KILN_CLI_VERBS_H
#define KILN_CLI_VERBS_H

#include "scheduler/cli/core/cli.h"

kiln_verb_function kiln_verb_backup, kiln_verb_backfill, kiln_verb_batch, kiln_verb_batches,
    kiln_verb_cache, kiln_verb_cancel, kiln_verb_doctor, kiln_verb_down, kiln_verb_drain,
    kiln_verb_enqueue, kiln_verb_errors, kiln_verb_events, kiln_verb_export, kiln_verb_favourite,
    kiln_verb_gc, kiln_verb_help, kiln_verb_jobs, kiln_verb_lora, kiln_verb_loras, kiln_verb_models,
    kiln_verb_migrate, kiln_verb_pause, kiln_verb_quota, kiln_verb_redraw, kiln_verb_forward,
    kiln_verb_restore, kiln_verb_run, kiln_verb_show, kiln_verb_status, kiln_verb_styles,
    kiln_verb_up, kiln_verb_usage, kiln_verb_vote, kiln_verb_wait, kiln_verb_watch, kiln_verb_why,
    kiln_verb_worker, kiln_verb_workers;

#endif
