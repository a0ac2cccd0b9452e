"""The names that each module of T2T imports. Packages may use them too.

`scripts/t2t_modules.py --source=…` writes this file from the source of tensor2tensor 1.15.7.

    translate_envi.problem.DatasetSplit.TRAIN        data_generators.problem, through another module

TARGETS maps each name to the module or object that it usually means. A target that begins with a
dot is in T2T; "tensor2tensor" is omitted. BY_MODULE lists the names by module. There, NAME=TARGET
marks a name that has another target than in TARGETS.
"""

_TARGETS = """
BytesIO=io.BytesIO DiscreteBottleneck=.layers.vq_discrete.DiscreteBottleneck
PyFuncBatchEnv=.rl.envs.py_func_batch_env.PyFuncBatchEnv
ShuffleNetwork=.models.research.shuffle_network.ShuffleNetwork
SimulatedBatchEnv=.rl.envs.simulated_batch_env.SimulatedBatchEnv
SimulatedBatchGymEnv=.rl.envs.simulated_batch_gym_env.SimulatedBatchGymEnv StringIO=six.StringIO
VocabType=.data_generators.text_problems.VocabType abc=abc adafactor_lib=.utils.adafactor
algorithmic=.data_generators.algorithmic area_attention=.layers.area_attention
arg_scope=tensorflow.contrib.framework.python.ops.arg_scope asyncio=asyncio
audio_encoder=.data_generators.audio_encoder base=.models.video.base base64=base64
base_vae=.models.video.base_vae basic_deterministic=.models.video.basic_deterministic
basic_deterministic_params=.models.video.basic_deterministic_params
basic_stochastic=.models.video.basic_stochastic beam_search=.utils.beam_search
bleu_hook=.utils.bleu_hook cPickle=six.moves.cPickle call=subprocess.call
cc_utils=.data_generators.wikisum.utils chain=itertools.chain cia=.layers.common_image_attention
cleaner_en_xx=.data_generators.cleaner_en_xx cloud=.utils.cloud_mlengine
cnn_dailymail=.data_generators.cnn_dailymail collections=collections
common_attention=.layers.common_attention common_audio=.layers.common_audio
common_hparams=.layers.common_hparams common_layers=.layers.common_layers
common_video=.layers.common_video contextlib=contextlib contrib=.utils.contrib
contrib_rnn=tensorflow.contrib.rnn control_flow_ops=tensorflow.python.ops.control_flow_ops
control_flow_util=tensorflow.python.ops.control_flow_util copy=copy csv=csv
data_reader=.utils.data_reader datetime=datetime debug=tensorflow.python.debug
decoding=.utils.decoding defaultdict=collections.defaultdict deque=collections.deque
devices=.utils.devices dialog_abstract=.data_generators.dialog_abstract diet=.utils.diet
discretization=.layers.discretization
distribute_summary_op_util=tensorflow.python.distribute.summary_op_util
dna_encoder=.data_generators.dna_encoder dtypes=tensorflow.python.framework.dtypes
epva_params=.models.video.epva_params eu=.utils.expert_utils expert_utils=.utils.expert_utils
fetch=.data_generators.wikisum.get_references_web_single_group flags=absl.flags
function=tensorflow.python.framework.function functools=functools gelu=.layers.common_layers.gelu
generator_utils=.data_generators.generator_utils glow=.layers.transformer_glow_layers
glow_init_hook=.models.research.glow_init_hook glow_ops=.models.research.glow_ops
gops=.layers.transformer_glow_layers_ops gym_env=.data_generators.gym_env gym_utils=.rl.gym_utils
gzip=gzip hashlib=hashlib hparam=.utils.hparam hparams_lib=.utils.hparams_lib
html=.data_generators.wikisum.html image_utils=.data_generators.image_utils
imagenet=.data_generators.imagenet imdb=.data_generators.imdb importlib=importlib
inplace_ops=tensorflow.python.ops.inplace_ops input=six.moves.input
inspect=tensorflow.python.util.tf_inspect io=io itertools=itertools json=json
latent_layers=.layers.latent_layers layers=.models.neural_architecture_search.nas_layers
learning_rate=.utils.learning_rate librispeech=.data_generators.librispeech
lm1b=.data_generators.lm1b logging=absl.logging lr=.utils.learning_rate math=math
metrics=.utils.metrics metrics_hook=.utils.metrics_hook misc_utils=.utils.misc_utils
mixed_precision_is_enabled=.layers.common_attention.mixed_precision_is_enabled
mkdtemp=tempfile.mkdtemp mlperf_log=.utils.mlperf_log mnist=.data_generators.mnist
modalities=.layers.modalities moe=.models.research.moe
moving_averages=tensorflow.python.training.moving_averages mp=multiprocessing
mtf_model=.utils.mtf_model mtf_transformer=.models.mtf_transformer
mtf_transformer2=.models.mtf_transformer2 multi_problem=.data_generators.multi_problem
multi_problem_v2=.data_generators.multi_problem_v2 multinli=.data_generators.multinli
multiprocessing=multiprocessing multistep_optimizer=.utils.multistep_optimizer
namedtuple=collections.namedtuple nest=tensorflow.python.util.nest
next_frame_glow=.models.video.next_frame_glow np=numpy numbers=numbers operator=operator
ops=tensorflow.python.framework.ops optimize=.utils.optimize os=os partial=functools.partial
pprint=pprint problem=.data_generators.problem
problem_hparams_to_features=.data_generators.problem.problem_hparams_to_features
problem_lib=.data_generators.problem quantization=.utils.quantization random=random
range=six.moves.range re=re reduce=six.moves.reduce registry=.utils.registry
resnet_v1_152=tensorflow.contrib.slim.python.slim.nets.resnet_v1.resnet_v1_152
resnet_v2_152=tensorflow.contrib.slim.python.slim.nets.resnet_v2.resnet_v2_152
resource_variable_ops=tensorflow.python.ops.resource_variable_ops
reverse_shuffle_layer=.models.research.shuffle_network.reverse_shuffle_layer
rewriter_config_pb2=tensorflow.core.protobuf.rewriter_config_pb2 rouge=.utils.rouge
sari_hook=.utils.sari_hook savp_params=.models.video.savp_params
scheduled_sampling=.utils.scheduled_sampling
shuffle_layer=.models.research.shuffle_network.shuffle_layer shutil=shutil six=six
slim=tensorflow.contrib.slim socket=socket sp=subprocess
speech_recognition=.data_generators.speech_recognition squad=.data_generators.squad stat=stat
string=string struct=struct subprocess=subprocess
summary_op_util=tensorflow.python.ops.summary_op_util sv2p=.models.video.sv2p
sv2p_params=.models.video.sv2p_params sys=sys t2t_decoder=.bin.t2t_decoder
t2t_model=.utils.t2t_model t2t_trainer=.bin.t2t_trainer tarfile=tarfile tempfile=tempfile
text_encoder=.data_generators.text_encoder text_problems=.data_generators.text_problems
tf=tensorflow.compat.v1 tf_slim=tensorflow.contrib.slim tic_tac_toe_env=.envs.tic_tac_toe_env
time=time timeseries_data_generator=.data_generators.timeseries_data_generator
tokenizer=.data_generators.tokenizer tpu_config=tensorflow.contrib.tpu.python.tpu.tpu_config
tpu_estimator=tensorflow.contrib.tpu.python.tpu.tpu_estimator trainer_lib=.utils.trainer_lib
training_ops=tensorflow.python.training.training_ops transformer=.models.transformer
transformer_decoder_layer=.models.transformer.transformer_decoder_layer
transformer_encoder=.models.transformer.transformer_encoder
transformer_layers=.layers.transformer_layers transformer_memory=.layers.transformer_memory
transformer_prepare_encoder=.models.transformer.transformer_prepare_encoder
transformer_vae=.models.research.transformer_vae translate=.data_generators.translate
translate_ende=.data_generators.translate_ende translate_enfr=.data_generators.translate_enfr
translate_enro=.data_generators.translate_enro unicodedata=unicodedata
universal_transformer=.models.research.universal_transformer
universal_transformer_util=.models.research.universal_transformer_util
update_ops_hook=.utils.update_ops_hook urllib=six.moves.urllib_request usr_dir_lib=.utils.usr_dir
utils=.data_generators.wikisum.utils uuid=uuid variable_scope=tensorflow.python.ops.variable_scope
vgg=tensorflow.contrib.slim.python.slim.nets.vgg video_generated=.data_generators.video_generated
video_metrics=.utils.video_metrics video_utils=.data_generators.video_utils
vqa_attention=.models.research.vqa_attention vqa_layers=.layers.vqa_layers
vqa_utils=.data_generators.vqa_utils wave=wave wiki_lm=.data_generators.wiki_lm
wiki_revision_utils=.data_generators.wiki_revision_utils wikisum=.data_generators.wikisum.wikisum
yellowfin=.utils.yellowfin zip=six.moves.zip zipfile=zipfile
"""
_BY_MODULE = """
data_generators.algorithmic: metrics modalities np os problem range registry shutil text_encoder tf
    utils=.data_generators.generator_utils
data_generators.algorithmic_math: namedtuple random range six
data_generators.algorithmic_math_deepmind: generator_utils os problem registry tarfile
    text_problems tf
data_generators.algorithmic_math_two_variables: os problem registry tarfile text_problems tf
data_generators.all_problems: importlib range six
data_generators.allen_brain: BytesIO contrib generator_utils image_utils math metrics modalities np
    os problem registry text_encoder tf
data_generators.audio: flags os subprocess tarfile tf wave
data_generators.audio_encoder: call np os tempfile
data_generators.babi_qa: collections metrics modalities os problem registry shutil six tarfile
    text_encoder text_problems tf tokenizer
data_generators.bair_robot_pushing: contrib generator_utils modalities np os problem registry
    tarfile tf video_utils
data_generators.celeba: generator_utils image_utils modalities os registry tf zipfile
data_generators.celebahq: image_utils metrics modalities os problem registry tf
data_generators.cifar: cPickle generator_utils image_utils metrics mnist modalities np os problem
    registry six tarfile tf
data_generators.cipher: algorithmic deque np registry
data_generators.cleaner_en_xx: itertools re text_encoder tf
data_generators.cnn_dailymail: generator_utils hashlib io os problem random registry tarfile
    text_encoder text_problems tf wiki_lm
data_generators.cola: generator_utils os problem registry text_encoder text_problems tf zipfile
data_generators.common_voice: csv generator_utils os problem registry speech_recognition tarfile tf
data_generators.conll_ner: generator_utils os problem registry text_problems tf zipfile
data_generators.desc2code: collections generator_utils os problem random re registry text_encoder
    text_problems tf zipfile
data_generators.dialog_abstract: VocabType generator_utils metrics modalities os problem re tarfile
    text_encoder text_problems tf zipfile
data_generators.dialog_cornell: collections dialog_abstract os re registry text_encoder
data_generators.dialog_dailydialog: collections dialog_abstract os registry text_encoder
data_generators.dialog_opensubtitles: collections dialog_abstract os re registry text_encoder
    zipfile
data_generators.dialog_personachat: collections dialog_abstract os registry tarfile text_encoder
    zipfile
data_generators.dna_encoder: itertools range text_encoder
data_generators.enwik8: generator_utils os problem registry text_problems tf zipfile
data_generators.fsns: contrib generator_utils image_utils modalities os problem registry
    text_encoder tf
data_generators.function_docstring: StringIO csv generator_utils metrics registry text_problems tf
data_generators.gene_expression: dna_encoder generator_utils math metrics modalities mp np os
    problem range registry text_encoder tf
data_generators.generator_utils: functools gzip math mlperf_log multiprocessing np os random range
    six stat tarfile tempfile text_encoder tf urllib
data_generators.google_robot_pushing: generator_utils io modalities np os problem registry tf
    video_utils
data_generators.gym_env: collections contrib generator_utils gym_utils itertools metrics misc_utils
    modalities np problem random registry tf video_utils
data_generators.ice_parsing: generator_utils modalities os problem registry text_encoder
    text_problems
data_generators.image_lsun: generator_utils image_utils io os registry tf zipfile
data_generators.image_utils: common_layers contrib generator_utils io metrics modalities np os
    problem text_encoder tf
data_generators.imagenet: generator_utils image_utils modalities os problem registry tf
data_generators.imdb: generator_utils os problem registry tarfile text_problems tf
data_generators.inspect_tfrecord: six text_encoder tf
data_generators.lambada: csv generator_utils modalities os problem registry tarfile text_encoder
    text_problems tf
data_generators.librispeech: generator_utils os problem registry speech_recognition tarfile tf
data_generators.lm1b: generator_utils os problem range registry tarfile text_encoder text_problems
    tf
data_generators.lm1b_imdb: imdb lm1b multi_problem registry text_problems
data_generators.lm1b_mnli: lm1b multi_problem multinli registry text_problems
data_generators.mnist: generator_utils gzip image_utils np os random registry tf
data_generators.moving_mnist: contrib generator_utils modalities np os problem registry tf
    video_utils
data_generators.mrpc: generator_utils os problem registry text_encoder text_problems tf
data_generators.mscoco: generator_utils image_utils imagenet io json os problem random registry
    text_encoder tf translate_ende zipfile
data_generators.multi_problem: common_layers discretization metrics modalities problem
    text_problems tf
data_generators.multi_problem_v2: functools np os problem text_problems tf
data_generators.multinli: generator_utils lm1b os problem registry text_encoder text_problems tf
    wiki_lm zipfile
data_generators.ocr: image_utils os problem registry struct tf
data_generators.paraphrase_ms_coco: collections generator_utils io json os problem registry
    text_problems tf zipfile
data_generators.pointer_generator_word: os registry text_encoder text_problems tf
data_generators.problem: collections contrib data_reader functools generator_utils hparam metrics
    mlperf_log os random six text_encoder tf tpu_config
data_generators.problem_hparams: modalities os problem registry text_encoder tf
data_generators.program_search: generator_utils gzip json os problem registry text_problems tf
data_generators.ptb: collections generator_utils os problem registry sys tarfile text_encoder
    text_problems tf
data_generators.qnli: generator_utils os problem registry text_encoder text_problems tf zipfile
data_generators.quora_qpairs: generator_utils os problem registry text_encoder text_problems tf
    zipfile
data_generators.rte: generator_utils os problem registry text_encoder text_problems tf zipfile
data_generators.scitail: generator_utils lm1b os problem registry text_encoder text_problems tf
    zipfile
data_generators.snli: generator_utils os text_encoder tf tokenizer zipfile
data_generators.speech_recognition: audio_encoder common_audio common_layers metrics modalities np
    problem text_encoder tf
data_generators.squad: generator_utils json os problem registry text_problems tf wiki_lm
data_generators.sst_binary: generator_utils os problem registry text_encoder text_problems tf
    zipfile
data_generators.stanford_nli: generator_utils lm1b os problem registry text_encoder text_problems
    tf wiki_lm zipfile
data_generators.style_transfer: generator_utils os problem registry tarfile text_problems
data_generators.subject_verb_agreement: collections csv generator_utils gzip metrics os problem
    random registry text_encoder text_problems tf
data_generators.text_encoder: chain collections math np range re six tempfile tf time tokenizer
data_generators.text_encoder_build_subword: text_encoder tf tokenizer
data_generators.text_problems: generator_utils metrics mlperf_log modalities os problem re registry
    text_encoder tf
data_generators.timeseries: generator_utils metrics modalities np problem registry text_encoder tf
    timeseries_data_generator
data_generators.timeseries_data_generator: np
data_generators.tokenizer: collections mlperf_log range six sys tf unicodedata
data_generators.transduction_problems: os problem random range registry text_encoder text_problems
    tf
data_generators.translate: bleu_hook cleaner_en_xx contrib generator_utils gzip mlperf_log os
    problem tarfile text_encoder text_problems tf zipfile
data_generators.translate_encs: problem registry text_encoder text_problems translate
data_generators.translate_ende: problem registry text_problems translate wiki_lm
data_generators.translate_enes: problem registry text_encoder text_problems translate
data_generators.translate_enet: problem registry text_encoder text_problems translate
data_generators.translate_enfr: os problem registry text_encoder text_problems translate wiki_lm
data_generators.translate_enid: problem registry text_encoder translate
data_generators.translate_enmk: problem registry text_encoder text_problems translate
data_generators.translate_enro: problem random registry text_problems translate wiki_lm
data_generators.translate_entn: problem registry text_encoder translate
data_generators.translate_envi: problem registry text_encoder translate
data_generators.translate_enzh: generator_utils os problem registry text_encoder text_problems tf
    translate
data_generators.video_generated: contrib math modalities np registry tf video_utils
data_generators.video_utils: common_layers common_video contrib flags functools generator_utils
    image_utils metrics modalities np os problem six text_encoder tf video_metrics
data_generators.vqa: base64 contrib csv generator_utils image_utils json metrics modalities np os
    problem random registry sys tarfile text_encoder tf vqa_utils zipfile
data_generators.vqa_utils: control_flow_ops tf
data_generators.wiki: generator_utils np os problem registry subprocess text_encoder text_problems
    tf
data_generators.wiki_lm: generator_utils os problem registry six text_problems tf
data_generators.wiki_multi_problems: cnn_dailymail multi_problem multi_problem_v2 multinli registry
    squad text_problems translate_ende translate_enfr translate_enro wiki_lm
data_generators.wiki_revision: flags generator_utils math metrics random registry text_encoder
    text_problems tf wiki_revision_utils
data_generators.wiki_revision_utils: generator_utils math os random re subprocess text_encoder tf
data_generators.wikisum.generate_vocab: tf wikisum
data_generators.wikisum.get_references_commoncrawl: os tempfile tf utils wikisum
data_generators.wikisum.get_references_web: fetch math os sp tf utils
data_generators.wikisum.get_references_web_single_group: asyncio datetime html json math
    multiprocessing os random tf=tensorflow utils
data_generators.wikisum.html:
data_generators.wikisum.parallel_launch: cloud contextlib mp os socket sp tf time
data_generators.wikisum.produce_examples: os range tf utils wikisum
data_generators.wikisum.utils: collections contextlib datetime gzip os re tf urllib=urllib
data_generators.wikisum.validate_data: json np os six tf wikisum zip
data_generators.wikisum.wikisum: cc_utils collections generator_utils json math metrics modalities
    os problem re registry six string tempfile text_encoder tf tokenizer
data_generators.wikitext103: collections generator_utils os problem registry text_encoder
    text_problems tf zipfile
data_generators.wnli: generator_utils os problem registry text_encoder text_problems tf zipfile
data_generators.wsj_parsing: flags os problem registry text_problems tf
data_generators.yelp_full: generator_utils os problem registry tarfile text_problems tf
data_generators.yelp_polarity: generator_utils os problem registry tarfile text_problems tf
layers.area_attention: common_layers np range tf
layers.common_attention: area_attention collections common_layers contrib expert_utils function
    functools inplace_ops itertools math np operator range tf zip
layers.common_audio: functools np tf
layers.common_hparams: hparam registry tf zip
layers.common_image_attention: common_attention common_layers expert_utils np range tf
layers.common_layers: collections contextlib contrib control_flow_util function functools
    inplace_ops logging math np ops range tf
layers.common_video: common_layers contrib distribute_summary_op_util np summary_op_util tf
layers.discretization: cia common_hparams common_layers moving_averages partial tf
layers.latent_layers: beam_search cia common_attention common_layers range tf transformer_layers
layers.message_passing_attention: common_attention common_layers expert_utils tf
layers.modalities: cia common_attention common_audio common_layers common_video discretization
    range tf
layers.ngram: np tf
layers.transformer_glow_layers: common_layers functools gops np tf
layers.transformer_glow_layers_ops: common_attention common_layers copy math tf
    transformer_decoder_layer
layers.transformer_layers: common_attention common_layers expert_utils mlperf_log tf
layers.transformer_memory: common_layers tf
layers.vq_discrete: common_layers moving_averages partial tf
layers.vqa_layers: common_attention common_layers contrib inplace_ops resnet_v1_152 resnet_v2_152
    slim tf
models.basic: common_hparams common_layers registry t2t_model tf
models.bytenet: common_hparams common_layers range registry t2t_model tf
models.distillation: common_hparams registry t2t_model tf
models.evolved_transformer: common_attention common_layers inplace_ops registry t2t_model tf
    transformer
models.image_transformer: cia common_hparams common_layers copy modalities registry t2t_model tf
models.image_transformer_2d: cia common_hparams common_layers copy modalities np registry t2t_model
    tf
models.lstm: area_attention common_hparams common_layers contrib copy registry t2t_model tf
models.mtf_image_transformer: common_hparams common_layers copy mtf_model registry tf
models.mtf_resnet: common_hparams copy mtf_model registry tf
models.mtf_transformer: common_hparams common_layers copy modalities moe mtf_model registry tf
models.mtf_transformer2: common_hparams common_layers modalities mtf_model registry tf
models.neural_architecture_search.nas_layers: abc common_attention six tf
models.neural_architecture_search.nas_model: abc common_attention common_layers contrib layers
    metrics registry six t2t_model tf transformer
models.neural_assistant: common_attention common_layers registry six tf transformer
models.neural_gpu: common_hparams common_layers range registry t2t_model tf
models.research.adafactor_experiments: registry transformer
models.research.aligned: common_attention common_hparams common_layers expert_utils registry
    t2t_model tf
models.research.attention_lm: common_attention common_hparams common_layers contrib range registry
    t2t_model tf
models.research.attention_lm_moe: common_attention common_hparams common_layers expert_utils
    functools range registry t2t_model tf
models.research.autoencoders: common_attention common_hparams common_layers discretization
    latent_layers modalities registry t2t_model tf
models.research.cycle_gan: common_layers modalities registry t2t_model tf transformer_vae
models.research.gene_expression: common_hparams common_layers contrib range registry t2t_model tf
models.research.glow: common_hparams common_layers contrib glow_init_hook glow_ops np registry
    t2t_model tf
models.research.glow_init_hook: tf
models.research.glow_ops: common_layers common_video contrib functools np tf
models.research.lm_experiments: registry transformer
models.research.moe: tf
models.research.moe_experiments: moe mtf_transformer mtf_transformer2 registry
models.research.multiquery_paper: mtf_transformer2 registry
models.research.neural_stack: collections common_hparams common_layers contrib registry t2t_model
    tf
models.research.residual_shuffle_exchange: ShuffleNetwork gelu np registry reverse_shuffle_layer
    shuffle_layer tf
models.research.rl: PyFuncBatchEnv SimulatedBatchEnv SimulatedBatchGymEnv
    basic_deterministic_params basic_stochastic collections common_hparams common_layers
    discretization functools gym_env hparam modalities operator problem registry six t2t_model tf
    tic_tac_toe_env trainer_lib video_utils
models.research.shuffle_network: common_hparams math registry t2t_model tf
models.research.similarity_transformer: common_layers problem registry t2t_model tf transformer
models.research.super_lm: common_attention common_hparams common_layers diet expert_utils
    modalities range registry t2t_model tf
models.research.transformer_aux: common_layers registry tf transformer
models.research.transformer_moe: common_attention common_hparams common_layers expert_utils
    registry t2t_model tf transformer
models.research.transformer_nat: beam_search common_layers functools moving_averages range registry
    t2t_model tf transformer
models.research.transformer_parallel: common_layers registry text_encoder tf transformer
models.research.transformer_revnet: common_attention common_layers contrib registry tf transformer
models.research.transformer_sketch: common_layers registry tf transformer
models.research.transformer_symshard: common_attention common_hparams common_layers expert_utils
    modalities range registry t2t_model tf
models.research.transformer_vae: beam_search cia common_attention common_layers contrib
    discretization expert_utils functools latent_layers math modalities os range registry t2t_model
    tf transformer
models.research.transformer_vae_flow_prior: common_attention common_layers contrib copy glow gops
    inspect=inspect math modalities multi_problem
    ops=.research.models.transformer_vae_flow_prior_ops optimize registry six t2t_model tf
    transformer
models.research.transformer_vae_flow_prior_ops: common_attention common_layers gops lr mlperf_log
    range tf transformer_decoder_layer transformer_encoder transformer_prepare_encoder
models.research.universal_transformer: common_attention common_layers contrib registry tf
    transformer universal_transformer_util
models.research.universal_transformer_util: common_attention common_layers contrib copy
    expert_utils functools range tf transformer
models.research.vqa_attention: common_attention common_hparams common_layers contrib_rnn registry
    resnet_v1_152 resnet_v2_152 t2t_model tf utils=tensorflow.contrib.layers.python.layers.utils
    vqa_layers
models.research.vqa_recurrent_self_attention: common_attention common_layers functools registry tf
    universal_transformer universal_transformer_util
    utils=tensorflow.contrib.layers.python.layers.utils vqa_attention vqa_layers
models.research.vqa_self_attention: common_attention common_hparams common_layers range registry tf
    utils=tensorflow.contrib.layers.python.layers.utils vqa_attention vqa_layers
models.resnet: common_hparams common_layers hparam registry t2t_model tf
models.revnet: common_hparams contrib functools registry t2t_model tf
models.shake_shake: common_hparams common_layers hparam registry t2t_model tf
models.slicenet: common_attention common_hparams common_layers modalities range registry t2t_model
    tf zip
models.text_cnn: common_hparams common_layers registry t2t_model tf
models.transformer: beam_search common_attention common_hparams common_layers expert_utils
    inplace_ops librispeech mlperf_log modalities nest range registry t2t_model tf
    transformer_layers transformer_memory
models.vanilla_gan: common_hparams common_layers registry t2t_model tf
models.video.base: common_hparams common_layers common_video discretization functools modalities
    registry six t2t_model tf
models.video.base_vae: common_layers common_video tf
models.video.basic_deterministic: base basic_deterministic_params common_attention common_layers
    common_video discretization registry tf
models.video.basic_deterministic_params: base modalities registry
models.video.basic_recurrent: basic_stochastic common_video registry
models.video.basic_stochastic: base_vae basic_deterministic basic_deterministic_params
    common_attention common_layers common_video discretization registry tf
models.video.emily: common_layers common_video contrib registry sv2p sv2p_params tf
models.video.epva: arg_scope common_layers common_video contrib epva_params reduce registry sv2p tf
    vgg
models.video.epva_params: basic_deterministic_params modalities registry
models.video.next_frame_glow: common_layers common_video contrib glow=.models.research.glow
    glow_ops modalities np range registry tf
models.video.nfg_interpolate: common_layers common_video contrib decoding flags glow_ops
    image_utils np os t2t_trainer tf trainer_lib zip
models.video.nfg_test_utils: next_frame_glow np os registry tempfile tf video_generated
models.video.savp: common_layers common_video contrib np numbers registry savp_params sv2p tf
    update_ops_hook
models.video.savp_params: modalities registry sv2p_params
models.video.sv2p: base base_vae common_layers common_video contrib discretization registry tf
models.video.sv2p_params: basic_stochastic modalities registry
models.video.tests_utils: modalities np registry tf video_generated
models.xception: common_hparams common_layers math range registry t2t_model tf
utils.adafactor: common_layers quantization tf
utils.adv_attack_utils: np registry tf
utils.avg_checkpoints: np os six tf zip
utils.beam_search: common_layers inplace_ops math nest np tf
utils.bleu_hook: collections math np os range re six sys text_encoder tf time unicodedata zip
utils.cloud_mlengine: common_hparams datetime os pprint registry shutil sp sys tempfile
    text_encoder tf usr_dir_lib
utils.compute_video_metrics: os range t2t_decoder tf video_metrics
utils.contrib: logging tf tf_slim
utils.data_reader: contrib functools mlperf_log multiprocessing random range six tf
utils.decoding: collections contrib hparam input mlperf_log np operator os problem_lib re registry
    six string text_encoder text_problems tf time
utils.devices: eu inspect tf
utils.diet: common_layers copy defaultdict hparam math tf
utils.expert_utils: DiscreteBottleneck common_layers functools math range six tf zip
utils.flags: tf
utils.get_rouge: logging=logging mkdtemp os shutil tf
utils.hparam: json numbers re six
utils.hparams_lib: hparam json problem_lib registry tf
utils.learning_rate: mlperf_log np tf
utils.metrics: bleu_hook common_layers contrib inspect modalities np rouge sari_hook six tf
utils.metrics_hook: os tf
utils.misc_utils: pprint re
utils.mlperf_log: inspect=inspect json logging=logging os re sys time uuid
utils.mlperf_tags:
utils.mtf_model: hparams_lib learning_rate metrics six t2t_model tf tpu_estimator
utils.multistep_optimizer: tf
utils.multistep_with_adamoptimizer: resource_variable_ops tf training_ops
utils.optimize: adafactor_lib common_layers contrib dtypes misc_utils mlperf_log
    multistep_optimizer np registry tf yellowfin
utils.partial_checkpoint_load_hook: tf
utils.pruning_utils: common_layers np registry tf
utils.quantization: function tf
utils.registry: collections inspect misc_utils tf
utils.restore_hook: contrib six tf
utils.rouge: np tf
utils.sari_hook: collections np tf
utils.scheduled_sampling: common_layers copy inplace_ops tf
utils.t2t_model: base=tensorflow.python.layers.base beam_search collections common_layers
    contextlib contrib copy decoding eu functools hparams_lib inplace_ops inspect learning_rate
    math metrics mixed_precision_is_enabled mlperf_log modalities multi_problem optimize os
    problem_hparams_to_features quantization registry scheduled_sampling six text_encoder tf time
    variable_scope
utils.test_utils: tf
utils.trainer_lib: collections contextlib contrib debug decoding devices hparams_lib json
    metrics_hook mlperf_log np os random registry rewriter_config_pb2 t2t_model tf
utils.update_ops_hook: tf
utils.usr_dir: importlib os sys tf
utils.video2gif: decoding np os problem sys t2t_trainer tf trainer_lib
utils.video_metrics: np os six tf
utils.yellowfin: tf
"""
TARGETS = dict(word.split("=") for word in _TARGETS.split())


def _read(text):
    entries = (entry.partition(":") for entry in text.replace("\n    ", " ").split("\n"))
    return {
        module: {
            name: target or TARGETS[name]
            for name, _, target in (word.partition("=") for word in words.split())
        }
        for module, _, words in entries
        if module
    }


BY_MODULE = _read(_BY_MODULE)
