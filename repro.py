
import os
os.environ['TORCH_COMPILE_DEBUG_DIR'] = '/tmp/fx-explorer-minifier-cgnpfjeq'
os.environ['TORCHINDUCTOR_CACHE_DIR'] = '/tmp/torchinductor_root'
os.environ['_TORCHINDUCTOR_PYOBJECT_TENSOR_DATA_PTR'] = '139858457316384'
os.environ.pop('TORCHDYNAMO_REPRO_AFTER', None)
os.environ.pop('TORCHDYNAMO_REPRO_LEVEL', None)

import torch
from torch import tensor, device
import torch.fx as fx
from torch._dynamo.testing import rand_strided
from math import inf
import torch._inductor.inductor_prims



import torch._dynamo.config
import torch._inductor.config
import torch._functorch.config
import torch.fx.experimental._config
import fx_explorer.publishing
torch._dynamo.config.assume_static_by_default = False
torch._dynamo.config.ignore_logging_functions = { fx_explorer.publishing.publish_run, fx_explorer.publishing.is_looked_at, fx_explorer.publishing.publish }
torch._dynamo.config.run_gc_after_compile = False
torch._inductor.config.fx_graph_cache = False
torch._inductor.config.fx_graph_remote_cache = False
torch._inductor.config.triton.store_cubin = False
torch._inductor.config.deterministic = False
torch._inductor.config.inplace_buffers = True
torch._inductor.config.comprehensive_padding = True
torch._functorch.config.functionalize_rng_ops = False
torch._functorch.config.enable_autograd_cache = False
torch._functorch.config.fake_tensor_allow_unsafe_data_ptr_access = True
torch._functorch.config.unlift_effect_tokens = False
torch._functorch.config.selective_decompose = False



isolate_fails_code_str = None





if "__compile_source__" in globals():
    import inspect as __after_aot_inspect
    import linecache as __after_aot_linecache
    __after_aot_filename = __after_aot_inspect.currentframe().f_code.co_filename
    __after_aot_linecache.cache[__after_aot_filename] = (
        len(__compile_source__),
        None,
        __compile_source__.splitlines(True),
        __after_aot_filename,
    )
# torch version: 2.13.0+cpu
# torch cuda version: None
# torch git version: cf30153c4c131c8164ee7798e5022d810682e2cb


# torch.cuda.is_available()==False, no GPU info collected
torch._higher_order_ops.triton_kernel_wrap.kernel_side_table.reset_table()

from torch.nn import *
class Repro(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()



    def forward(self, arg0_1, arg1_1):
        sin = torch.ops.aten.sin.default(arg1_1)
        cos = torch.ops.aten.cos.default(sin);  sin = None
        mul_4 = torch.ops.aten.mul.Tensor(cos, 2);  cos = None
        add_9 = torch.ops.aten.add.Tensor(arg1_1, 1.0);  arg1_1 = None
        mul_9 = arg0_1 * arg0_1;  arg0_1 = None
        view = torch.ops.aten.view.default(add_9, [mul_9]);  add_9 = None
        unsqueeze = torch.ops.aten.unsqueeze.default(view, 1);  view = None
        expand = torch.ops.aten.expand.default(unsqueeze, [mul_9, 2]);  unsqueeze = None
        clone = torch.ops.aten.clone.default(expand, memory_format = torch.contiguous_format);  expand = None
        mul_18 = mul_9 * 2;  mul_9 = None
        view_1 = torch.ops.aten.view.default(clone, [mul_18]);  clone = mul_18 = None
        rev = torch.ops.prims.rev.default(view_1, [0]);  view_1 = None
        return (rev, mul_4)

def load_args(reader):
    reader.symint(2)  # arg0_1
    buf0 = reader.storage('88c8a3c66ebb8b11d2c0489fd92c50ceea6f2ad1', 16)
    reader.tensor(buf0, (2, 2), is_leaf=True)  # arg1_1
load_args._version = 0
mod = Repro()
if __name__ == '__main__':
    from torch._dynamo.repro.after_aot import run_repro
    with torch.no_grad():
        run_repro(mod, load_args, accuracy=True, command='run', save_dir='/tmp/fx-explorer-minifier-cgnpfjeq/torch_compile_debug/run_2026_11_30_15_34_49_014500-pid_22895/minifier/checkpoints', tracing_mode='real', check_str=None)
        # To run it separately, do 
        # mod, args = run_repro(mod, load_args, accuracy=True, command='get_args', save_dir='/tmp/fx-explorer-minifier-cgnpfjeq/torch_compile_debug/run_2026_11_30_15_34_49_014500-pid_22895/minifier/checkpoints', tracing_mode='real', check_str=None)
        # mod(*args)