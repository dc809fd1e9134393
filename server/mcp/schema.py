"""Arguments and results of the MCP tools; clients get their JSON schemas with the descriptions."""

from typing import Any

from pydantic import BaseModel, ConfigDict, Field

_DOCUMENTS: Any = Field(default_factory=list, description="names or ids of documents, or collections; all if empty")


class Arguments(BaseModel):
    """Arguments of a tool; others are refused."""

    model_config = ConfigDict(extra="forbid")


class SearchArguments(Arguments):
    query: str = Field(description="a question, or words to look for")
    documents: list[str] = _DOCUMENTS
    passages: int = Field(default=4, description="how many passages to return at most, 1 to 64")


class AskArguments(Arguments):
    question: str = Field(description="a question about the documents, complete in itself")
    documents: list[str] = _DOCUMENTS
    passages: int = Field(default=3, description="how many passages to answer from at most, 1 to 64")
    max_tokens: int = Field(default=256, description="longest answer, in tokens")
    method: str | None = Field(default=None, description="how cached KV is reused, such as cacheclip or full")
    recompute_ratio: float | None = Field(default=None, description="share of the tokens to recompute, 0 to 1")


class ListArguments(Arguments):
    pass


class AddArguments(Arguments):
    name: str = Field(min_length=1, description="file name with its extension, such as report.pdf; for display only")
    text: str | None = Field(default=None, description="the text of the document; this or content")
    content: str | None = Field(default=None, description="the bytes of the file in base64; this or text")


class Passage(BaseModel):
    text: str = Field(description="the passage, after the headings above it")
    document: str = Field(description="name of the document")
    document_id: str
    page: int | None = Field(description="page of the first character, from 1; null in formats without pages")
    score: float = Field(description="ranks the passages of one search; higher is better")
    similarity: float | None = Field(description="cosine similarity to the query; null without vectors")


class SearchResult(BaseModel):
    passages: list[Passage] = Field(description="best first")


class Citation(BaseModel):
    number: int = Field(description="of the mark in the answer: 1 for [1]")
    document: str = Field(description="name of the document")
    document_id: str
    page: int | None
    similarity: float | None
    is_marked: bool = Field(description="whether the answer has the mark; if not, only a quote supports it")
    quotes: list[str] = Field(description="what of the passage supports the answer, word for word")


class Alternative(BaseModel):
    number: int = Field(description="of the passage among those that were read")
    document: str = Field(description="name of the document")
    page: int | None
    quote: str = Field(description="word for word")


class AskResult(BaseModel):
    answer: str = Field(description="the text, with marks such as [1]")
    citations: list[Citation]
    confidence: float | None = Field(description="probability that the answer is right; null if not estimated")
    alternatives: list[Alternative] = Field(description="other quotes that may answer, if the confidence is below 0.5")
    method: str
    recompute_ratio: float = Field(description="share of the passages' tokens that was recomputed, 0 to 1")
    ttft_ms: float | None = Field(description="time to first token in milliseconds")
    notes: list[str] = Field(description="sentences for the user, such as that passages did not fit")


class DocumentInfo(BaseModel):
    id: str
    name: str
    pages: int | None
    passages: int
    size_bytes: int
    warning: str
    language: str = Field(description="such as German, or a script such as Cyrillic; empty if it is not clear")
    collections: list[str]


class ListResult(BaseModel):
    documents: list[DocumentInfo] = Field(description="newest first")


class AddResult(BaseModel):
    document: DocumentInfo
    message: str = Field(description="a warning, or that the document was in the library already; often empty")
