"""T2T's problems that are not here, each with the reason and the nearest."""

from ut_keras.problems.problem import REGISTRY

_WIKIPEDIA = "it has the vocabulary of languagemodel_en_wiki64k, as a package may say"
_CLEANED = "no sentences are cleaned, and no TMX files are read here"

# Names or patterns, with spaces between them, and why.
for _patterns, _reason in {
    "image_* img2img_* allen_brain_* ocr_test": (
        "there are no problems of images; the nearest for other data: make one of your own from "
        "files, text2text_tsv"
    ),
    "video_*": "there are no problems of video",
    "librispeech* common_voice* timit_* audio_*": "there are no problems of speech",
    "gym_*": "there is no reinforcement learning",
    "gene_expression_* genomics_*": "there are no problems of genes",
    "timeseries_*": "there are no problems of real numbers",
    # Text to classes.
    "multi_nli_*": f"{_WIKIPEDIA}; the nearest: multi_nli, multi_nli_text2text",
    "stanford_nli_*": f"{_WIKIPEDIA}; the nearest: stanford_nli",
    "sentiment_*": "the nearest: sentiment_imdb, sentiment_sst_binary, or your own, text2class_tsv",
    "glue_*": "T2T's names of GLUE's tasks are cola, multi_nli, rte, …: ut-datagen --registry_help",
    # Text to text.
    "summarize_*": f"{_WIKIPEDIA}; the nearest: summarize_cnn_dailymail32k",
    "squad*": "the nearest: squad_text2text, which has the paragraph in its inputs",
    "conll2002_*": "there is no tagging of words; the nearest: text2text_tsv, of words and tags",
    "dialog_* github_function_docstring grammar_error_correction* programming_desc2code_* "
    "wikisum_*": "it is not here yet; bring its files as text2text_tmpdir",
    "seq2edits_*": "the nearest: text2text_tsv, of sentences and corrected ones",
    "text2text_copyable_tokens": "the nearest: text2text_tmpdir_tokens",
    "parsing_english_ptb* parsing_icelandic*": "the nearest: wsj_parsing",
    "algorithmic_cipher_*": "the nearest: algorithmic_shift_decimal40",
    "copy_sequence*": "the nearest: algorithmic_identity_decimal40",
    "flip_bi_gram_sequence reverse_sequence*": "the nearest: algorithmic_reverse_decimal40",
    # Translation.
    "translate_ende*bpe*": (
        "its texts are split into BPE tokens beforehand, and T2T fetches them from Google Drive; "
        "the nearest: translate_ende_wmt32k, with subwords, or text2text_tmpdir_tokens, of such "
        "files that you have"
    ),
    "translate_encs_cubbitt*": "the nearest: translate_encs_wmt32k",
    "translate_ende_*multi*": f"{_WIKIPEDIA}; the nearest: translate_ende_wmt32k",
    "translate_enro_*multi*": f"{_WIKIPEDIA}; the nearest: translate_enro_wmt32k",
    "translate_ende*clean*": f"{_CLEANED}; the nearest: translate_ende_wmt32k",
    "translate_enes*clean*": f"{_CLEANED}; the nearest: translate_enes_wmt32k",
    "translate_enfr*": "the nearest: translate_enfr_wmt32k",
    "translate_enzh_wmt32k*": (
        "most of its texts are given out by registration only; the nearest: translate_enzh_wmt8k"
    ),
    # Language models.
    "languagemodel_*wiki* wiki_* enwik8*": "it is not here yet; bring its text as text2self_txt",
    "languagemodel_lm1b_*": (
        "a package may make it, of multi_problem.MultiProblem; the nearest: languagemodel_lm1b32k"
    ),
}.items():
    for _pattern in _patterns.split():
        REGISTRY.mark_unsupported(_pattern, _reason)
