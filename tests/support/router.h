/* router.h - a router of a registry's text, which tests of routes share. */
#ifndef KILN_TEST_ROUTER_H
#define KILN_TEST_ROUTER_H

#include "scheduler/router/router.h"

#define KILN_TEST_REGISTRY 41 /* the version of every registry here */

extern struct kiln_lexicon *lexicon;
extern struct kiln_router *router;
extern struct kiln_router_reader *reader;

/* Of loras.json's form; the caller frees it.  Needs the lexicon; fails the test. */
struct kiln_router *kiln_test_router(const char *text);
/* Of a group of tests: lexicon, router and reader. */
int kiln_router_rig_open(const char *text);
int kiln_router_rig_close(void **state);

#endif
