/* verbs.h - the functions behind the rows of verb_tables.h, each in a file of its own name. */
#ifndef KILN_CLI_VERBS_H
#define KILN_CLI_VERBS_H

struct kiln_cli;

int kiln_verb_backup(struct kiln_cli *cli, int argc, char **argv);
int kiln_verb_backfill(struct kiln_cli *cli, int argc, char **argv);
int kiln_verb_batch(struct kiln_cli *cli, int argc, char **argv);
int kiln_verb_batches(struct kiln_cli *cli, int argc, char **argv);
int kiln_verb_cache(struct kiln_cli *cli, int argc, char **argv);
int kiln_verb_cancel(struct kiln_cli *cli, int argc, char **argv);
int kiln_verb_doctor(struct kiln_cli *cli, int argc, char **argv);
int kiln_verb_down(struct kiln_cli *cli, int argc, char **argv);
int kiln_verb_drain(struct kiln_cli *cli, int argc, char **argv);
int kiln_verb_enqueue(struct kiln_cli *cli, int argc, char **argv);
int kiln_verb_errors(struct kiln_cli *cli, int argc, char **argv);
int kiln_verb_events(struct kiln_cli *cli, int argc, char **argv);
int kiln_verb_export(struct kiln_cli *cli, int argc, char **argv);
int kiln_verb_favourite(struct kiln_cli *cli, int argc, char **argv);
int kiln_verb_gc(struct kiln_cli *cli, int argc, char **argv);
int kiln_verb_help(struct kiln_cli *cli, int argc, char **argv);
int kiln_verb_jobs(struct kiln_cli *cli, int argc, char **argv);
int kiln_verb_migrate(struct kiln_cli *cli, int argc, char **argv);
int kiln_verb_pause(struct kiln_cli *cli, int argc, char **argv);
int kiln_verb_quota(struct kiln_cli *cli, int argc, char **argv);
int kiln_verb_forward(struct kiln_cli *cli, int argc, char **argv);
int kiln_verb_restore(struct kiln_cli *cli, int argc, char **argv);
int kiln_verb_resume(struct kiln_cli *cli, int argc, char **argv);
int kiln_verb_retry(struct kiln_cli *cli, int argc, char **argv);
int kiln_verb_run(struct kiln_cli *cli, int argc, char **argv);
int kiln_verb_show(struct kiln_cli *cli, int argc, char **argv);
int kiln_verb_status(struct kiln_cli *cli, int argc, char **argv);
int kiln_verb_up(struct kiln_cli *cli, int argc, char **argv);
int kiln_verb_usage(struct kiln_cli *cli, int argc, char **argv);
int kiln_verb_wait(struct kiln_cli *cli, int argc, char **argv);
int kiln_verb_watch(struct kiln_cli *cli, int argc, char **argv);
int kiln_verb_why(struct kiln_cli *cli, int argc, char **argv);
int kiln_verb_worker(struct kiln_cli *cli, int argc, char **argv);
int kiln_verb_workers(struct kiln_cli *cli, int argc, char **argv);

#endif
