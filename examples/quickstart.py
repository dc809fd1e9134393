"""Ask questions about a few texts; the second one reuses the KV of the first: `python -m examples.quickstart`."""

from engine import Request, load_engine

TEXTS = [
    "The Old Kestrel is the oldest boat of Harbour Line. She sails the Bay Route to Port Arden every morning.",
    "The Silver Tern carries 18 cars to Low Island. She was built in 1998 and refitted in 2015.",
    "An adult ticket costs 12 pounds. Children under five travel free, dogs pay 2 pounds on every boat.",
]


def main() -> None:
    """Print the answers, their time to first token, and how much of the passages was recomputed."""
    engine = load_engine(texts=TEXTS)
    for question in ("How many cars does the Silver Tern carry?", "What does an adult ticket cost?"):
        *_, answer = engine.ask(Request(question, method="cacheclip", recompute_ratio=0.2))
        print(f"{question}\n{answer.text}")
        print(f"TTFT {answer.trace.ttft_ms:.0f} ms, {answer.actual_ratio:.0%} of the passages' tokens recomputed\n")


if __name__ == "__main__":
    main()
