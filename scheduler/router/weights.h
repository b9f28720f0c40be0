/* weights.h - fitted on tests/quality/routing/dev.jsonl by `kiln bench routing --fit FILE`. */
#ifndef KILN_ROUTER_WEIGHTS_H
#define KILN_ROUTER_WEIGHTS_H

#define KILN_WEIGHT_BIAS -4107
#define KILN_WEIGHT_T 6154
#define KILN_WEIGHT_K 6002
#define KILN_WEIGHT_B 2538
#define KILN_WEIGHT_N 0

#endif
