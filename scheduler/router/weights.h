/* weights.h - fitted on tests/quality/routing/dev.jsonl by `kiln bench routing --fit FILE`. */
#ifndef KILN_ROUTER_WEIGHTS_H
#define KILN_ROUTER_WEIGHTS_H

#define KILN_WEIGHT_BIAS -3183
#define KILN_WEIGHT_T 6424
#define KILN_WEIGHT_K 6688
#define KILN_WEIGHT_B 839
#define KILN_WEIGHT_N 0

#endif
