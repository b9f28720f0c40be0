/* weights.h - fitted on tests/quality/routing/dev.jsonl by `kiln bench routing --fit FILE`. */
#ifndef KILN_ROUTER_WEIGHTS_H
#define KILN_ROUTER_WEIGHTS_H

#define KILN_WEIGHT_BIAS -3995
#define KILN_WEIGHT_T 6174
#define KILN_WEIGHT_K 6367
#define KILN_WEIGHT_B 2350
#define KILN_WEIGHT_N 0

#endif
