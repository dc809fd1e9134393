"""The file that a task takes its paragraphs and questions from."""

from dataclasses import dataclass

from bench.data.formats import RawQuestion, read_questions

MAX_PARAGRAPH_CHARS = 4000  # longer texts are whole documents


@dataclass(frozen=True)
class TaskSource:
    """A file's questions and distinct paragraphs, and the settings that every item depends on."""

    file: str
    group: str  # name of the file in the rows
    questions: tuple[RawQuestion, ...]
    paragraphs: tuple[str, ...]
    num_passages: int  # per question
    seed: int


def read_source(file: str, num_passages: int, seed: int) -> TaskSource:
    """Return the source of a file or a hub data set. Raises InvalidDataset and DatasetsMissing."""
    group, questions = read_questions(file)
    passages = dict.fromkeys(text for one in questions for text in (one.passages or (one.paragraph,)))
    paragraphs = tuple(text for text in passages if text and len(text) <= MAX_PARAGRAPH_CHARS)
    return TaskSource(file, group, tuple(questions), paragraphs, num_passages, seed)
