"""Facts about models that decide whether an experiment can run, each with its source."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """Shape of a decoder-only transformer.

    Attributes:
        id: Hugging Face repository id.
        architecture: class name in the model's ``config.json``.
        tokenizer: name of the tokenizer family; draft and target must have the same one.
        layers: decoder layers.
        hidden_size: width of the residual stream.
        attention_heads: query heads.
        kv_heads: key/value heads (grouped-query attention).
        head_size: width of one head; not ``hidden_size / attention_heads`` for Qwen3.
        intermediate_size: width of the feed-forward layer.
        vocabulary: rows of the embedding.
        max_positions: longest context the model was configured for, tokens.
        tied_embeddings: input and output embedding are one matrix.
        parameters: weights stored, count.
        revision: git revision on Hugging Face that is staged.
        target_head: whether an EAGLE draft holds a copy of its target's output head.
        gated: whether Hugging Face gives it only to accounts that accepted its licence.
        source: where the figures were read, with the date.
    """

    id: str
    architecture: str
    tokenizer: str
    layers: int
    hidden_size: int
    attention_heads: int
    kv_heads: int
    head_size: int
    intermediate_size: int
    vocabulary: int
    max_positions: int
    tied_embeddings: bool
    parameters: int
    revision: str
    gated: bool = False
    target_head: bool = False
    source: str

    def weight_bytes(self, bytes_per_parameter: int = 2) -> int:
        """Bytes of the weights; bf16 by default."""
        return self.parameters * bytes_per_parameter

    def step_bytes(self, bytes_per_parameter: int = 2) -> int:
        """Bytes of weights read in one decode step: all but the input embedding, of which one row is read.

        With tied embeddings the matrix is read as the output projection.
        """
        embedding = 0 if self.tied_embeddings else self.vocabulary * self.hidden_size
        return (self.parameters - embedding) * bytes_per_parameter

    def kv_bytes_per_token(self, bytes_per_value: int = 2) -> int:
        """Bytes of key/value cache one token takes: key and value, each layer, each KV head."""
        return 2 * self.layers * self.kv_heads * self.head_size * bytes_per_value


_QWEN3 = (
    "config.json of the model on Hugging Face, figures public; read 2026-11 through facts collected for this"
    " project"
)
_SHAPE = (
    "shape from config.json of the model on Hugging Face, general knowledge, not looked up; the count follows"
    " from it, which a test computes"
)
_LLAMA = (
    "config.json of the model on Hugging Face, figures public; the count follows from the shape, which a test"
    " computes"
)

MODELS = {
    model.id: model
    for model in (
        Model(
            id="Qwen/Qwen3-32B",
            architecture="Qwen3ForCausalLM",
            tokenizer="qwen3",
            layers=64,
            hidden_size=5120,
            attention_heads=64,
            kv_heads=8,
            head_size=128,
            intermediate_size=25600,
            vocabulary=151936,
            max_positions=40960,
            tied_embeddings=False,
            parameters=32_762_123_264,
            revision="9216db5781bf21249d130ec9da846c4624c16137",
            source=_QWEN3,
        ),
        Model(
            id="Qwen/Qwen3-1.7B",
            architecture="Qwen3ForCausalLM",
            tokenizer="qwen3",
            layers=28,
            hidden_size=2048,
            attention_heads=16,
            kv_heads=8,
            head_size=128,
            intermediate_size=6144,
            vocabulary=151936,
            max_positions=40960,
            tied_embeddings=True,
            parameters=1_720_574_976,
            revision="70d244cc86ccca08cf5af4e1e306ecf908b1ad5e",
            source=_QWEN3,
        ),
        Model(
            id="Qwen/Qwen3-0.6B",
            architecture="Qwen3ForCausalLM",
            tokenizer="qwen3",
            layers=28,
            hidden_size=1024,
            attention_heads=16,
            kv_heads=8,
            head_size=128,
            intermediate_size=3072,
            vocabulary=151936,
            max_positions=40960,
            tied_embeddings=True,
            parameters=596_049_920,
            revision="c1899de289a04d12100db370d81485cdf75e47ca",
            source=_QWEN3,
        ),
        Model(
            id="meta-llama/Llama-3.3-70B-Instruct",
            architecture="LlamaForCausalLM",
            tokenizer="llama3",
            layers=80,
            hidden_size=8192,
            attention_heads=64,
            kv_heads=8,
            head_size=128,
            intermediate_size=28672,
            vocabulary=128256,
            max_positions=131072,
            tied_embeddings=False,
            parameters=70_553_706_496,
            revision="main",
            gated=True,
            source=_LLAMA,
        ),
        Model(
            id="meta-llama/Llama-3.1-8B-Instruct",
            architecture="LlamaForCausalLM",
            tokenizer="llama3",
            layers=32,
            hidden_size=4096,
            attention_heads=32,
            kv_heads=8,
            head_size=128,
            intermediate_size=14336,
            vocabulary=128256,
            max_positions=131072,
            tied_embeddings=False,
            parameters=8_030_261_248,
            revision="main",
            gated=True,
            source=_LLAMA,
        ),
        Model(
            id="meta-llama/Llama-3.2-1B-Instruct",
            architecture="LlamaForCausalLM",
            tokenizer="llama3",
            layers=16,
            hidden_size=2048,
            attention_heads=32,
            kv_heads=8,
            head_size=64,
            intermediate_size=8192,
            vocabulary=128256,
            max_positions=131072,
            tied_embeddings=True,
            parameters=1_235_814_400,
            revision="main",
            gated=True,
            source=_LLAMA,
        ),
        Model(
            id="Qwen/Qwen3-8B",
            architecture="Qwen3ForCausalLM",
            tokenizer="qwen3",
            layers=36,
            hidden_size=4096,
            attention_heads=32,
            kv_heads=8,
            head_size=128,
            intermediate_size=12288,
            vocabulary=151936,
            max_positions=40960,
            tied_embeddings=False,
            parameters=8_190_735_360,
            revision="main",
            source=_SHAPE,
        ),
        Model(
            id="Qwen/Qwen3-4B",
            architecture="Qwen3ForCausalLM",
            tokenizer="qwen3",
            layers=36,
            hidden_size=2560,
            attention_heads=32,
            kv_heads=8,
            head_size=128,
            intermediate_size=9728,
            vocabulary=151936,
            max_positions=40960,
            tied_embeddings=True,
            parameters=4_022_468_096,
            revision="main",
            source=_SHAPE,
        ),
        Model(
            id="meta-llama/Llama-3.1-405B-Instruct",
            architecture="LlamaForCausalLM",
            tokenizer="llama3",
            layers=126,
            hidden_size=16384,
            attention_heads=128,
            kv_heads=8,
            head_size=128,
            intermediate_size=53248,
            vocabulary=128256,
            max_positions=131072,
            tied_embeddings=False,
            parameters=405_853_388_800,
            revision="main",
            gated=True,
            source=_LLAMA,
        ),
    )
}


def same_model(served: str, name: str) -> bool:
    """Whether a server's name for its model stands for this model: the same, or a path that ends with it."""
    return served.rstrip("/").rpartition("/")[2].lower() == name.rstrip("/").rpartition("/")[2].lower()
