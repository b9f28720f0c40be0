"""blend.py - the mean of a model and of what a later round made of it.

    python blend.py --start MODEL --weights W/reword --share 0.5 --out W        writes W/blend-*.pt

A round from a model that is good already forgets a little of what it knew; the weights between both know both (Wortsman et al.,
"Robust fine-tuning of zero-shot models", 2022).
"""
import argparse
import os

from flow import load_model, read_weights, save_weights


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--start", required=True)
    parser.add_argument("--weights", required=True)
    parser.add_argument("--share", type=float, required=True, help="of --weights")
    parser.add_argument("--out", required=True)
    args = parser.parse_args()
    model, later = load_model(args.start), read_weights(args.weights)
    model.load_state_dict({name: value.lerp(later[name], args.share) for name, value in model.state_dict().items()})
    save_weights(model, os.path.join(args.out, "blend"))


if __name__ == "__main__":
    main()
