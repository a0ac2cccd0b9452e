"""T2T's problems that are not supported, each with the reason or an alternative."""

from ut_keras.problems.registration import REGISTRY

_WIKIPEDIA = (
    "it uses the vocabulary of languagemodel_en_wiki64k, which your own problem can also use"
)
_CLEANED = "cleaning of sentences and TMX files are not supported"
_RENAMED = "T2T renamed it; use"

# Dict from names or patterns, separated by spaces, to the reason.
_REASONS = {
    "image_* img2img_* allen_brain_* ocr_test": (
        "image problems are not supported; text2text_tsv makes a problem from your own text files"
    ),
    "video_*": "video problems are not supported",
    "librispeech* common_voice* timit_* audio_*": "speech problems are not supported",
    "gym_*": "reinforcement learning is not supported",
    "gene_expression_* genomics_*": "gene problems are not supported",
    "timeseries_*": "problems with real numbers are not supported",
    # Text to classes.
    "multi_nli_*": f"{_WIKIPEDIA}; use multi_nli or multi_nli_text2text",
    "stanford_nli_*": f"{_WIKIPEDIA}; use stanford_nli",
    "sentiment_*": "use sentiment_imdb, sentiment_sst_binary, or text2class_tsv with your files",
    "glue_*": "T2T's names of GLUE's tasks are cola, multi_nli, rte, …: see docs/problems.md",
    # Text to text.
    "summarize_*": f"{_WIKIPEDIA}; use summarize_cnn_dailymail32k",
    "squad*": "use squad_text2text, whose inputs contain the paragraph",
    "conll2002_*": "tagging of words is not supported; use text2text_tsv with words and tags",
    "dialog_* github_function_docstring grammar_error_correction* programming_desc2code_* "
    "wikisum_*": "use text2text_tmpdir with its files",
    "seq2edits_*": "use text2text_tsv with sentences and corrected sentences",
    "text2text_copyable_tokens": "use text2text_tmpdir_tokens",
    "parsing_english_ptb* parsing_icelandic*": "use wsj_parsing",
    "copy_sequence*": "use algorithmic_identity_decimal40",
    "flip_bi_gram_sequence reverse_sequence*": "use algorithmic_reverse_decimal40",
    # Translation.
    "translate_encs_cubbitt*": "use translate_encs_wmt32k",
    "translate_ende_*multi*": f"{_WIKIPEDIA}; use translate_ende_wmt32k",
    "translate_enro_*multi*": f"{_WIKIPEDIA}; use translate_enro_wmt32k",
    "translate_ende*clean*": f"{_CLEANED}; use translate_ende_wmt32k",
    "translate_enes*clean*": f"{_CLEANED}; use translate_enes_wmt32k",
    "translate_enfr*": "use translate_enfr_wmt32k",
    "translate_enzh_wmt32k*": ("most of its texts require registration; use translate_enzh_wmt8k"),
    # Names of T2T 1.0 and 1.1.
    "wmt_ende_tokens_32k": f"{_RENAMED} translate_ende_wmt32k",
    "wmt_ende_tokens_8k": f"{_RENAMED} translate_ende_wmt8k",
    "wmt_ende_characters": f"{_RENAMED} translate_ende_wmt_characters",
    "wmt_enfr_tokens_32k": f"{_RENAMED} translate_enfr_wmt32k",
    "wmt_enfr_tokens_8k": f"{_RENAMED} translate_enfr_wmt8k",
    "wmt_enfr_characters": f"{_RENAMED} translate_enfr_wmt_characters",
    "wmt_encs_tokens_32k": f"{_RENAMED} translate_encs_wmt32k",
    "wmt_encs_characters": f"{_RENAMED} translate_encs_wmt_characters",
    "wmt_zhen_tokens_*": f"{_RENAMED} translate_enzh_wmt8k_rev",
    "setimes_mken_tokens_32k": f"{_RENAMED} translate_enmk_setimes32k_rev",
    "lm_ptb_10k": f"{_RENAMED} languagemodel_ptb10k",
    "lm_ptb_characters": f"{_RENAMED} languagemodel_ptb_characters",
    # Names in the authors' bAbI-T2T. Each is a problem with all tasks.
    "babi_qa_sentence_task0_10k": "use babi_qa_sentence_all_tasks_10k",
    "babi_qa_sentence_task0_1k": "use babi_qa_sentence_all_tasks_1k",
    "ice_parsing_*": "use wsj_parsing",
    "cipher_*": "use algorithmic_cipher_shift5 or algorithmic_cipher_vigenere5",
    "desc2code_*": "use text2text_tmpdir with its files",
    "multinli_*": f"{_RENAMED} multi_nli",
    # Language models.
    "languagemodel_*wiki* wiki_* enwik8*": "use text2self_txt with its text",
    "languagemodel_lm1b_*": (
        "a package can define it with multi_problem.MultiProblem; use languagemodel_lm1b32k"
    ),
}
REGISTRY.mark_all_unsupported(_REASONS)
