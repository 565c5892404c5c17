"""Translates each kernel of a PTX module to C++, one function of one thread (see device_code.hpp):

    translate.py <module.ptx> <folder>
"""

import re
import sys
from collections import Counter

from counts import JUMPS, Blocks
from ptx import SIZE, STORED, VALUE, Module, Unknown, name_in_c, parameters, split_operands

FLOATS = ('float', 'double')
ROUNDING = {'rm': '0x2000', 'rp': '0x4000', 'rz': '0x6000'}
SPECIAL = {'%tid': 't.id', '%ntid': 't.in->size', '%ctaid': 't.in->id', '%nctaid': 't.in->grid'}
COMPARE = {'eq': '==', 'ne': '!=', 'lt': '<', 'le': '<=', 'gt': '>', 'ge': '>=', 'lo': '<', 'ls': '<=', 'hi': '>',
           'hs': '>='}


class Kernel:
    """One function's C++."""

    def __init__(self, module, name):
        self.module, self.name = module, name
        self.entry, results, given, self.body, self.limits = module.functions[name]
        self.parameters, self.parameter_bytes = parameters(given)
        self.result_names, _ = parameters(results)
        self.registers, self.shared, self.local = {}, {}, {}  # name -> C++ type; place; place
        self.shared_end = self.local_end = 0
        self.shared_spans = []  # (place, bytes)
        self.dynamic = None     # the name of the launch's own shared memory
        self.out, self.called, self.calls_open = [], set(), set()
        self.line = 0           # of the body

    # Operands

    def register(self, name):
        if name in self.registers:
            return self.registers[name]
        m = re.match(r'(%[a-zA-Z_]+)\d+$', name)
        return self.registers.get(m[1] + '<>') if m else None

    @staticmethod
    def c_name(name):
        return name_in_c(name)

    def literal(self, text, kind):
        if re.match(r'-?0[fF][0-9a-fA-F]{8}$', text):
            value = f'bits<float>(u32{{0x{text[-8:]}u}})'
            return f'bits<{kind}>({value})' if kind in ('u32', 's32') else f'{kind}({value})'
        if re.match(r'-?0[dD][0-9a-fA-F]{16}$', text):
            value = f'bits<double>(u64{{0x{text[-16:]}ull}})'
            return f'bits<{kind}>({value})' if kind in ('u64', 's64') else f'{kind}({value})'
        if re.match(r'-?(0[xX][0-9a-fA-F]+|\d+)U?$', text):
            number = int(text.rstrip('U'), 0)
            return f'{kind}({number & (2**64 - 1)}ull)' if kind not in FLOATS else f'{kind}({number})'
        return None

    def read(self, text, kind):
        """An expression of the C++ type `kind`."""
        if text.startswith('!'):
            return f'!{self.read(text[1:], kind)}'
        if text.startswith('-') and text[1:2] == '%':
            return f'{kind}(-{self.read(text[1:], kind)})'
        stored = self.register(text)
        if stored:
            name = self.c_name(text)
            if stored == kind:
                return name
            if (stored in FLOATS) != (kind in FLOATS):
                return f'bits<{kind}>({name})'
            return f'{kind}({name})'
        if text in ('%laneid',):
            return f'{kind}(t.lane())'
        if text == '%warpid':
            return f'{kind}(t.index / 32)'
        if text == 'WARP_SZ':
            return f'{kind}(32)'
        if text in ('%clock', '%clock64', '%globaltimer', '%smid', '%dynamic_smem_size', '%lanemask_eq', '%lanemask_lt',
                    '%lanemask_le', '%lanemask_gt', '%lanemask_ge'):
            of = {'%lanemask_eq': '1u << t.lane()', '%lanemask_lt': '(1u << t.lane()) - 1',
                  '%lanemask_le': '(2u << t.lane()) - 1', '%lanemask_gt': '~((2u << t.lane()) - 1)',
                  '%lanemask_ge': '~((1u << t.lane()) - 1)'}.get(text, '0')
            return f'{kind}({of})'
        m = re.match(r'(%\w+)\.([xyz])$', text)
        if m and m[1] in SPECIAL:
            return f'{kind}({SPECIAL[m[1]]}[{"xyz".index(m[2])}])'
        found = self.literal(text, kind)
        if found is not None:
            return found
        m = re.match(r'([\w$]+)(?:\s*\+\s*(-?\d+))?$', text)
        if m and (place := self.symbol(m[1])) is not None:
            return f'{kind}({place} + {m[2] or 0})'
        if text in ('true', 'false'):
            return text
        raise Unknown(f'operand {text}')

    def symbol(self, name):
        if name in self.shared:
            return f'u64({self.shared[name]})'
        if name in self.local:
            return f'reinterpret_cast<u64>(t.local + {self.local[name]})'
        if self.entry and name in self.parameters:
            return f'reinterpret_cast<u64>(p + {self.parameters[name][0]})'
        if name in self.module.globals:
            return f'global_{self.c_name(name)}'
        return None

    def write(self, text, value, kind):
        """`text` = value, of the C++ type `kind`."""
        if text == '_':
            self.emit(f'static_cast<void>({value});')
            return
        stored = self.register(text)
        if stored is None:
            raise Unknown(f'target {text}')
        if stored != kind:
            if (stored in FLOATS) != (kind in FLOATS):
                if SIZE[stored] != SIZE[kind]:
                    raise Unknown(f'{kind} into {text}')
                value = f'bits<{stored}>({kind}({value}))'
            else:
                value = f'{stored}({kind}({value}))'
        self.emit(f'{self.c_name(text)} = {value};')

    def emit(self, text):
        self.out.append('  ' + text)

    def address(self, text):
        """[register + offset], [symbol + offset] or [symbol]"""
        inner = text.strip()[1:-1].strip()
        m = re.match(r'(%?[\w$]+)\s*(?:\+\s*(-?\w+))?$', inner)
        base, offset = m[1], int(m[2] or '0', 0)
        if re.match(r'\d', base):
            return f'u64({int(base, 0) + offset})', base, offset
        if self.register(base):
            return f'(u64({self.c_name(base)}) + {offset & (2**64 - 1)}ull)', base, offset
        place = self.symbol(base)
        return (f'({place} + {offset}ull)' if place else None), base, offset

    # Statements

    def translate(self):
        body, line = self.body, 1
        text, depth = '', 0
        self.module.blocks.begin_function(self.entry)
        self.enter()
        # Statements end at ; or, for labels, at :, and braces stand alone.
        for piece in re.split(r'([;\n{}:])', body):
            if piece == '\n':
                line += 1
                text += ' '
            elif piece == ';':
                self.statement(text.strip())
                text = ''
            elif piece == '{' and not text.strip():
                self.emit('{')
            elif piece == '}' and not text.strip():
                self.emit('}')
            elif piece == ':' and re.match(r'\s*[$\w]+$', text.rstrip()) and '?' not in text:
                self.emit(f'{self.c_name(text.strip())}:;')
                self.enter(text.strip())
                text = ''
            else:
                if piece.strip() and not text.strip():
                    self.line = line
                text += piece
        self.module.blocks.end_function()
        return self

    def enter(self, label=None):
        """Begins a block of instructions to count."""
        self.emit(f'keep(t, {self.module.blocks.enter(label)});')

    def count(self, operation, operands, guarded):
        """Counts an instruction; returns the statement for a thread whose guard leaves it out."""
        found = self.module.blocks.add(operation, operands, guarded)
        for where, _, _, shared in found:
            at = self.address(where)[0] + (' + shared_window' if shared else '')
            if operation[0] == 'ldmatrix':  # lane 8 m + r has row r of matrix m
                at = f't.lane() < 8 * {operation[4][1:]} ? {at} : 0'
            elif operation[0] == 'cp' and not shared and len(operands) > 3:
                at = f'{self.read(operands[3], "u32")} != 0 ? {at} : 0'
            self.emit(f'keep(t, {at});')
        if operation[0] == 'ret' and not self.entry:
            self.emit(f'keep(t, {self.module.blocks.first});')
        return ' else {' + ' keep(t, 0);' * len(found) + ' }' if found else ''

    def statement(self, text):
        if not text:
            return
        if text.startswith('.'):
            return self.directive(text)
        m = re.match(r'@(!?)(%\w+)\s+(.*)$', text, re.S)
        guard = ''
        if m:
            guard, text = f'if ({m[1]}{self.c_name(m[2])}) ', m[3]
        m = re.match(r'([\w.:]+)\s*(.*)$', text, re.S)
        operation, operands = m[1].split('.'), split_operands(m[2])
        if operation[0] == 'call':
            operands = [m[2]]
        if guard:
            self.emit(guard + '{')
        handler = getattr(self, 'do_' + operation[0], None)
        if handler is None:
            raise Unknown(m[1])
        try:
            otherwise = self.count(operation, operands, bool(guard))
            handler(operation, operands)
        except (Unknown, KeyError, IndexError, TypeError, ValueError) as cause:
            raise Unknown(f'{text} (line {self.line}): {cause!r}')
        if guard:
            self.emit('}' + otherwise)
        if operation[0] in JUMPS:
            self.enter()

    def directive(self, text):
        m = re.match(r'\.reg\s+\.(\w+)\s+(.*)$', text, re.S)
        if m:
            for name in split_operands(m[2]):
                many = re.match(r'(%[\w$]+)<(\d+)>', name)
                if many:
                    self.registers[many[1] + '<>'] = STORED[m[1]]
                else:
                    self.registers[name] = STORED[m[1]]
            return
        m = re.match(r'\.(shared|local)\s+(?:\.align\s+(\d+)\s+)?\.(\w+)\s+([\w$]+)((?:\[\d+\])*)', text)
        if m:
            size = SIZE[STORED[m[3]]]
            for n in re.findall(r'\d+', m[5]):
                size *= int(n)
            places = self.shared if m[1] == 'shared' else self.local
            self.place(places, m[4], size, int(m[2] or 8), m[1] == 'shared')
            return
        m = re.match(r'\.param\s+(?:\.align\s+\d+\s+)?\.(\w+)\s+([\w$]+)(?:\[(\d+)\])?', text)
        if m:
            self.emit(f'alignas(16) u8 {self.c_name(m[2])}[{SIZE[STORED[m[1]]] * int(m[3] or 1)}];')
            self.calls_open.add(m[2])
            return
        if text.startswith(('.pragma', '.loc', '.file')):
            return
        raise Unknown(text)

    def place(self, places, name, size, align, shared):
        gap = 16 if shared else 0  # so that an index beyond a variable is noticed
        at = self.shared_end if shared else self.local_end
        align = max(align, 16)
        at = (at + align - 1) // align * align
        places[name] = at
        if shared:
            self.shared_spans.append((at, size))
            self.shared_end = at + size + gap
        else:
            self.local_end = at + size

    # Instructions: o is the operation in parts, a its operands

    def do_ld(self, o, a):
        kind = VALUE[o[-1]]
        space = next((s for s in o if s in ('global', 'shared', 'local', 'param', 'const')), 'generic')
        if 'shared::cta' in o:
            space = 'shared'
        targets = [x.strip() for x in a[0].strip('{}').split(',')]
        where, base, offset = self.address(a[1])
        self.check_vector(space, where, len(targets) * SIZE[kind], len(targets), 'false')
        for i, target in enumerate(targets):
            step = i * SIZE[kind]
            if space == 'param':
                source = (f'reinterpret_cast<const u8*>({where} + {step})' if self.register(base)
                          else self.parameter_location(base, offset + step))
                value = f'from_parameter<{kind}>({source})'
            else:
                if space == 'const':
                    space = 'global'
                value = f'load_{space}<{kind}>(t, {where} + {step}, {self.line})'
            if len(targets) > 1 and target in (base,):
                raise Unknown('a vector that overwrites its address')
            self.write(target, value, kind)

    def check_vector(self, space, where, size, parts, writes):
        """A vector begins at a multiple of its size; each part is checked for itself."""
        if parts > 1 and space in ('global', 'shared', 'generic'):
            self.emit(f'if (({where}) % {size} != 0) '
                      f'emulated_bad_access(t, {where}, {size}, {writes}, "{space}", {self.line});')

    def parameter_location(self, base, offset):
        if base in self.calls_open or base in self.result_names:
            return f'{self.c_name(base)} + {offset}'
        at, _ = self.parameters[base]
        return f'p + {at + offset}' if self.entry else f'{self.c_name(base)} + {offset}'

    def do_st(self, o, a):
        kind = VALUE[o[-1]]
        space = next((s for s in o if s in ('global', 'shared', 'local', 'param')), 'generic')
        if 'shared::cta' in o:
            space = 'shared'
        where, base, offset = self.address(a[0])
        sources = [x.strip() for x in a[1].strip('{}').split(',')]
        self.check_vector(space, where, len(sources) * SIZE[kind], len(sources), 'true')
        for i, source in enumerate(sources):
            step = i * SIZE[kind]
            value = self.read(source, kind)
            if space == 'param':
                place = self.parameter_location(base, offset + step)
                self.emit(f'{{ const {kind} v = {value}; std::memcpy({place}, &v, sizeof v); }}')
            else:
                self.emit(f'store_{space}<{kind}>(t, {where} + {step}, {value}, {self.line});')

    def do_ldu(self, o, a):
        self.do_ld(o, a)

    def do_mov(self, o, a):
        kind = STORED[o[-1]]
        if a[1].startswith('{'):
            parts = [x.strip() for x in a[1].strip('{}').split(',')]
            part = {1: 'u8', 2: 'u16', 4: 'u32', 8: 'u64'}[SIZE[kind] // len(parts)]
            raw = {4: 'u32', 8: 'u64', 2: 'u16'}[SIZE[kind]]
            joined = ' | '.join(f'{raw}({raw}({self.read(x, part)}) << {8 * SIZE[part] * i})'
                                for i, x in enumerate(parts))
            self.write(a[0], f'{raw}({joined})', raw)
        elif a[0].startswith('{'):
            parts = [x.strip() for x in a[0].strip('{}').split(',')]
            part = {1: 'u8', 2: 'u16', 4: 'u32', 8: 'u64'}[SIZE[kind] // len(parts)]
            raw = {4: 'u32', 8: 'u64', 2: 'u16'}[SIZE[kind]]
            self.emit('{')
            self.emit(f'const {raw} whole = {self.read(a[1], raw)};')
            for i, x in enumerate(parts):
                if x != '_':
                    self.write(x, f'{part}(whole >> {8 * SIZE[part] * i})', part)
            self.emit('}')
        else:
            self.write(a[0], self.read(a[1], kind), kind)

    def do_cvta(self, o, a):
        to = 'to' in o
        space = next(s for s in o if s.split('::')[0] in ('global', 'shared', 'local', 'const', 'param'))
        value = self.read(a[1], 'u64')
        if space.startswith('shared'):
            value = f'{value} - shared_window' if to else f'{value} + shared_window'
        self.write(a[0], value, 'u64')

    def do_isspacep(self, o, a):
        at = self.read(a[1], 'u64')
        self.write(a[0], {'shared': f'({at} - shared_window < shared_limit)', 'local': f'is_local(t, {at})',
                          'global': f'on_device({at})'}[o[1].split('::')[0]], 'bool')

    def float_rounded(self, o, value, kind, a):
        """Applies .ftz and .sat."""
        if 'ftz' in o:
            value = f'flush({value})'
        if 'sat' in o:
            value = f'saturate({value})'
        self.write(a[0], value, kind)

    def sources(self, o, a, kind):
        found = [self.read(x, kind) for x in a[1:]]
        return [f'flush({x})' for x in found] if 'ftz' in o and kind == 'float' else found

    def packed(self, o, a, f):
        """bf16, f16 and pairs of them: f of the floats, rounded."""
        of, to = ('of_bf16', 'bf16_of') if o[-1].startswith('bf16') else ('of_f16', 'f16_of')
        if o[-1].endswith('x2'):
            words = [self.read(x, 'u32') for x in a[1:]]
            low = f(*[f'{of}(u16({w}))' for w in words])
            high = f(*[f'{of}(u16({w} >> 16))' for w in words])
            self.write(a[0], f'u32({to}({low})) | u32({to}({high})) << 16', 'u32')
        else:
            self.write(a[0], f'{to}({f(*[f"{of}({self.read(x, chr(117) + str(16))})" for x in a[1:]])})', 'u16')

    def arithmetic(self, o, a, sign):
        if o[-1] in ('bf16', 'bf16x2', 'f16', 'f16x2'):
            return self.packed(o, a, lambda x, y: f'({x} {sign} {y})')
        kind = VALUE[o[-1]]
        if kind in FLOATS:
            x, y = self.sources(o, a, kind)
            mode = next((ROUNDING[r] for r in o if r in ROUNDING), None)
            if mode is None:
                value = f'{kind}({x} {sign} {y})'
            elif sign == '*':
                value = f'fma_in({mode}, {x}, {y}, {kind}(-0.0))'
            else:
                value = f'fma_in({mode}, {x}, {kind}(1), {"-" if sign == "-" else ""}{y})'
            return self.float_rounded(o, value, kind, a)
        if 'sat' in o:
            x, y = (f's64({self.read(v, "s32")})' for v in a[1:])
            return self.write(a[0], f's32(std::clamp({x} {sign} {y}, s64(-2147483648ll), s64(2147483647)))', 's32')
        raw = STORED[o[-1]]
        x, y = (self.read(v, raw) for v in a[1:])
        if 'cc' in o:
            wide = 'unsigned __int128' if raw == 'u64' else 'u64'
            self.emit(f'{{ const {wide} whole = {wide}({x}) {sign} {y}; t.cc = (whole >> {8 * SIZE[raw]}) & 1;')
            self.write(a[0], f'{raw}(whole)', raw)
            return self.emit('}')
        self.write(a[0], f'{raw}({x} {sign} {y})', raw)

    def do_add(self, o, a):
        self.arithmetic(o, a, '+')

    def do_sub(self, o, a):
        self.arithmetic(o, a, '-')

    def do_addc(self, o, a):
        raw = STORED[o[-1]]
        wide = 'unsigned __int128' if raw == 'u64' else 'u64'
        self.emit(f'{{ const {wide} whole = {wide}({self.read(a[1], raw)}) + {self.read(a[2], raw)} + t.cc;')
        if 'cc' in o:
            self.emit(f't.cc = (whole >> {8 * SIZE[raw]}) & 1;')
        self.write(a[0], f'{raw}(whole)', raw)
        self.emit('}')

    def do_subc(self, o, a):
        raw = STORED[o[-1]]
        wide = 'unsigned __int128' if raw == 'u64' else 'u64'
        self.emit(f'{{ const {wide} whole = {wide}({self.read(a[1], raw)}) - {self.read(a[2], raw)} - t.cc;')
        if 'cc' in o:
            self.emit(f't.cc = (whole >> {8 * SIZE[raw]}) & 1;')
        self.write(a[0], f'{raw}(whole)', raw)
        self.emit('}')

    def do_mul(self, o, a):
        if o[-1] in ('bf16', 'bf16x2', 'f16', 'f16x2') or VALUE[o[-1]] in FLOATS:
            return self.arithmetic(o, a, '*')
        self.write(a[0], *self.product(o, a))

    def product(self, o, a):
        kind = VALUE[o[-1]]
        x, y = self.read(a[1], kind), self.read(a[2], kind)
        if 'wide' in o:
            wide = {'s16': 's32', 'u16': 'u32', 's32': 's64', 'u32': 'u64'}[kind]
            return f'{wide}({wide}({x}) * {wide}({y}))', wide
        if 'hi' in o:
            return f'high_product<{kind}>({x}, {y})', kind
        return f'multiply<{kind}>({x}, {y})', kind

    def do_mad(self, o, a):
        if VALUE.get(o[-1]) in FLOATS:
            return self.do_fma(o, a)
        value, kind = self.product(o, a[:3])
        raw = STORED[{'s16': 's16'}.get(kind, kind)] if kind in STORED else kind
        if 'cc' in o:
            self.emit(f'{{ const u64 whole = u64({raw}({value})) + {self.read(a[3], raw)}; t.cc = whole >> 32;')
            self.write(a[0], f'{raw}(whole)', raw)
            return self.emit('}')
        self.write(a[0], f'{raw}({raw}({value}) + {self.read(a[3], raw)})', raw)

    def do_madc(self, o, a):
        value, kind = self.product(o, a[:3])
        raw = STORED[kind]
        self.emit(f'{{ const u64 whole = u64({raw}({value})) + {self.read(a[3], raw)} + t.cc;')
        if 'cc' in o:
            self.emit('t.cc = whole >> 32;')
        self.write(a[0], f'{raw}(whole)', raw)
        self.emit('}')

    def do_fma(self, o, a):
        if o[-1] in ('bf16', 'bf16x2', 'f16', 'f16x2'):
            return self.packed(o, a, lambda x, y, z: f'float(std::fma(double({x}), double({y}), double({z})))')
        kind = VALUE[o[-1]]
        x, y, z = self.sources(o, a, kind)
        mode = next((ROUNDING[r] for r in o if r in ROUNDING), None)
        self.float_rounded(o, f'fma_in({mode}, {x}, {y}, {z})' if mode else f'std::fma({x}, {y}, {z})', kind, a)

    def do_div(self, o, a):
        kind = VALUE[o[-1]]
        x, y = self.sources(o, a, kind)
        if kind in FLOATS:
            if any(r in o for r in ROUNDING):
                raise Unknown('rounding')
            return self.float_rounded(o, f'({x} / {y})', kind, a)
        self.write(a[0], f'divide<{kind}>({x}, {y})', kind)

    def do_rem(self, o, a):
        kind = VALUE[o[-1]]
        self.write(a[0], f'remainder_of<{kind}>({self.read(a[1], kind)}, {self.read(a[2], kind)})', kind)

    def unary(self, o, a, f):
        kind = VALUE[o[-1]]
        (x,) = self.sources(o, a, kind)
        self.float_rounded(o, f(x, kind), kind, a)

    def do_abs(self, o, a):
        if o[-1] in ('bf16', 'bf16x2', 'f16', 'f16x2'):
            return self.packed(o, a, lambda x: f'std::fabs({x})')
        self.unary(o, a, lambda x, k: f'std::fabs({x})' if k in FLOATS else f'{k}({x} < 0 ? 0 - {x} : {x})')

    def do_neg(self, o, a):
        if o[-1] in ('bf16', 'bf16x2', 'f16', 'f16x2'):
            return self.packed(o, a, lambda x: f'(-{x})')
        self.unary(o, a, lambda x, k: f'(-{x})' if k in FLOATS else f'{k}(0 - u64({x}))')

    def do_rcp(self, o, a):
        if o[-1] == 'f64' and 'approx' in o:
            return self.write(a[0], f'coarse(1.0 / {self.read(a[1], "double")})', 'double')
        self.unary(o, a, lambda x, k: f'({k}(1) / {x})')

    def do_sqrt(self, o, a):
        self.unary(o, a, lambda x, k: f'std::sqrt({x})')

    def do_rsqrt(self, o, a):
        if o[-1] == 'f64':
            return self.write(a[0], f'coarse(inverse_root({self.read(a[1], "double")}))', 'double')
        self.unary(o, a, lambda x, k: f'inverse_root({x})')

    def do_ex2(self, o, a):
        self.unary(o, a, lambda x, k: f'exp2_of({x})')

    def do_lg2(self, o, a):
        self.unary(o, a, lambda x, k: f'log2_of({x})')

    def do_tanh(self, o, a):
        self.unary(o, a, lambda x, k: f'tanh_of({x})')

    def do_sin(self, o, a):
        self.unary(o, a, lambda x, k: f'sine_of({x})')

    def do_cos(self, o, a):
        self.unary(o, a, lambda x, k: f'cosine_of({x})')

    def do_copysign(self, o, a):
        kind = VALUE[o[-1]]
        self.write(a[0], f'std::copysign({self.read(a[2], kind)}, {self.read(a[1], kind)})', kind)

    def do_testp(self, o, a):
        x = self.read(a[1], VALUE[o[-1]])
        test = {'finite': f'std::isfinite({x})', 'infinite': f'std::isinf({x})', 'number': f'!std::isnan({x})',
                'notanumber': f'std::isnan({x})', 'normal': f'std::isnormal({x})',
                'subnormal': f'(std::fpclassify({x}) == FP_SUBNORMAL)'}[o[1]]
        self.write(a[0], test, 'bool')

    def extreme(self, o, a, f):
        if o[-1] in ('bf16', 'bf16x2', 'f16', 'f16x2'):
            return self.packed(o, a, lambda x, y: f'{f}<float>({x}, {y})')
        kind = VALUE[o[-1]]
        x, y = self.sources(o, a, kind)
        value = f'{f}<{kind}>({x}, {y})'
        if 'NaN' in o:
            value = f'(std::isnan({x}) || std::isnan({y}) ? bits<float>(0x7fffffffu) : {value})'
        self.write(a[0], value, kind)

    def do_min(self, o, a):
        self.extreme(o, a, 'smaller')

    def do_max(self, o, a):
        self.extreme(o, a, 'larger')

    def bitwise(self, o, a, sign):
        kind = STORED[o[-1]]
        self.write(a[0], f'{kind}({self.read(a[1], kind)} {sign} {self.read(a[2], kind)})', kind)

    def do_and(self, o, a):
        self.bitwise(o, a, '&')

    def do_or(self, o, a):
        self.bitwise(o, a, '|')

    def do_xor(self, o, a):
        self.bitwise(o, a, '^')

    def do_not(self, o, a):
        kind = STORED[o[-1]]
        self.write(a[0], f'{"!" if kind == "bool" else "~"}{self.read(a[1], kind)}', kind)

    def do_shl(self, o, a):
        kind = STORED[o[-1]]
        self.write(a[0], f'shift_left<{kind}>({self.read(a[1], kind)}, {self.read(a[2], "u32")})', kind)

    def do_shr(self, o, a):
        kind = VALUE[o[-1]]
        self.write(a[0], f'shift_right<{kind}>({self.read(a[1], kind)}, {self.read(a[2], "u32")})', kind)

    def do_shf(self, o, a):
        x, y, by = (self.read(v, 'u32') for v in a[1:])
        by = f'{by} & 31' if 'wrap' in o else f'({by} > 32 ? 32 : {by})'
        self.write(a[0], f'funnel_{"left" if "l" in o else "right"}({x}, {y}, {by})', 'u32')

    def do_prmt(self, o, a):
        if len(o) > 2:
            raise Unknown('mode')
        self.write(a[0], f'permute({", ".join(self.read(v, "u32") for v in a[1:])})', 'u32')

    def do_lop3(self, o, a):
        self.write(a[0], f'logic({", ".join(self.read(v, "u32") for v in a[1:5])})', 'u32')

    def do_popc(self, o, a):
        self.write(a[0], f'u32(std::popcount({self.read(a[1], STORED[o[-1]])}))', 'u32')

    def do_clz(self, o, a):
        self.write(a[0], f'u32(std::countl_zero({self.read(a[1], STORED[o[-1]])}))', 'u32')

    def do_brev(self, o, a):
        kind = STORED[o[-1]]
        self.write(a[0], f'reversed({self.read(a[1], kind)})', kind)

    def do_bfe(self, o, a):
        kind = VALUE[o[-1]]
        first, bits = (self.read(v, 'u32') for v in a[2:4])
        self.write(a[0], f'field<{kind}>({self.read(a[1], kind)}, {first}, {bits})', kind)

    def do_bfi(self, o, a):
        kind = STORED[o[-1]]
        value, into = (self.read(v, kind) for v in a[1:3])
        first, bits = (self.read(v, 'u32') for v in a[3:5])
        self.write(a[0], f'insert<{kind}>({value}, {into}, {first}, {bits})', kind)

    def do_bfind(self, o, a):
        if VALUE[o[-1]].startswith('s'):
            raise Unknown('signed')
        kind = STORED[o[-1]]
        self.write(a[0], f'u32({8 * SIZE[kind] - 1} - std::countl_zero({self.read(a[1], kind)}))', 'u32')

    def do_setp(self, o, a):
        packed = o[-1] in ('bf16', 'f16')
        kind = 'float' if packed else VALUE[o[-1]]
        of = {'bf16': 'of_bf16', 'f16': 'of_f16'}.get(o[-1], '')
        if packed:
            x, y = (f'{of}({self.read(v, "u16")})' for v in a[1:3])
        else:
            x, y = (f'flush({self.read(v, kind)})' if 'ftz' in o else self.read(v, kind) for v in a[1:3])
        how = o[1]
        if kind in FLOATS:
            if how == 'num':
                test = f'(!std::isnan({x}) && !std::isnan({y}))'
            elif how == 'nan':
                test = f'(std::isnan({x}) || std::isnan({y}))'
            elif how == 'ne':
                test = f'(!std::isnan({x}) && !std::isnan({y}) && {x} != {y})'
            elif how == 'neu':
                test = f'({x} != {y})'
            elif how.endswith('u'):
                test = f'(std::isnan({x}) || std::isnan({y}) || {x} {COMPARE[how[:-1]]} {y})'
            else:
                test = f'({x} {COMPARE[how]} {y})'
        else:
            test = f'({x} {COMPARE[how]} {y})'
        targets = a[0].split('|')
        join = next(({'and': '&', 'or': '|', 'xor': '^'}[j] for j in o[2:] if j in ('and', 'or', 'xor')), None)
        self.emit(f'{{ const bool found = {test};')
        if join:
            c = self.read(a[3], 'bool')
            self.emit(f'const bool also = {c};')
            self.write(targets[0], f'found {join} also', 'bool')
            if len(targets) > 1:
                self.write(targets[1], f'(!found) {join} also', 'bool')
        else:
            self.write(targets[0], 'found', 'bool')
            if len(targets) > 1:
                self.write(targets[1], '!found', 'bool')
        self.emit('}')

    def do_set(self, o, a):
        kind, to = VALUE[o[-1]], VALUE[o[-2]]
        test = f'({self.read(a[1], kind)} {COMPARE[o[1]]} {self.read(a[2], kind)})'
        self.write(a[0], f'{test} ? ' + ('1.0f : 0.0f' if to == 'float' else '0xffffffffu : 0u'), to)

    def do_selp(self, o, a):
        kind = STORED[o[-1]]
        self.write(a[0], f'{self.read(a[3], "bool")} ? {self.read(a[1], kind)} : {self.read(a[2], kind)}', kind)

    def do_cvt(self, o, a):
        to, source = o[-2], o[-1]
        if to in ('bf16x2', 'f16x2'):
            f = 'bf16_of' if to == 'bf16x2' else 'f16_of'
            high, low = self.read(a[1], 'float'), self.read(a[2], 'float')
            return self.write(a[0], f'u32({f}({low})) | u32({f}({high})) << 16', 'u32')
        small = {'bf16': ('of_bf16', 'bf16_of'), 'f16': ('of_f16', 'f16_of')}
        if source in small:
            value, kind = f'{small[source][0]}({self.read(a[1], "u16")})', 'float'
        else:
            kind = VALUE[source]
            value = self.read(a[1], kind)
        if to in small:
            if kind == 'double':
                raise Unknown('f64 to 16 bits')
            if 'rz' in o or 'relu' in o or 'satfinite' in o:
                raise Unknown('mode')
            return self.write(a[0], f'{small[to][1]}(float({value}))', 'u16')
        target = VALUE[to]
        if 'ftz' in o and kind == 'float':
            value = f'flush({value})'
        whole = next((r for r in o if r in ('rni', 'rzi', 'rmi', 'rpi')), None)
        mode = next((ROUNDING[r] for r in o if r in ROUNDING), None)
        if kind in FLOATS and whole:
            function = {'rni': 'nearbyint', 'rzi': 'trunc', 'rmi': 'floor', 'rpi': 'ceil'}[whole]
            value = f'std::{function}({value})'
        if kind in FLOATS and target not in FLOATS:
            return self.write(a[0], f'integer_of<{target}>({value})', target)
        if kind == 'double' and target == 'float' and mode:
            value = f'narrow_in({mode}, {value})'
        elif kind not in FLOATS and target in FLOATS and mode:
            value = f'float_of_in<{target}>({mode}, {value})'
        elif 'sat' in o and target not in FLOATS:
            raise Unknown('sat of an integer')
        value = f'{target}({value})'
        if target in FLOATS and 'sat' in o:
            value = f'saturate({value})'
        self.write(a[0], value, target)

    def do_bra(self, o, a):
        self.emit(f'goto {self.c_name(a[0])};')

    def do_ret(self, o, a):
        self.emit('return;')

    def do_exit(self, o, a):
        if not self.entry:
            raise Unknown('exit of a function')
        self.emit('return;')

    def do_trap(self, o, a):
        self.emit(f'emulated_trap(t, "trap", {self.line});')

    def do_bar(self, o, a):
        if 'warp' in o:
            return self.emit(f'emulated_warp_barrier(t, {self.read(a[0], "u32")}, {self.line});')
        if 'sync' not in o:
            raise Unknown('.'.join(o))
        count = self.read(a[1], 'u32') if len(a) > 1 else '0'
        self.emit(f'emulated_barrier(t, {self.read(a[0], "u32")}, {count}, {self.line});')

    def do_barrier(self, o, a):
        if 'cluster' in o:
            raise Unknown('cluster')
        self.do_bar(o, a)

    def do_membar(self, o, a):
        pass

    do_fence = do_prefetch = do_prefetchu = do_nanosleep = do_discard = do_membar

    def do_activemask(self, o, a):
        raise Unknown('activemask')

    def do_shfl(self, o, a):
        mode = {'up': 0, 'down': 1, 'bfly': 2, 'idx': 3}[o[2]]
        targets = a[0].split('|')
        value, b, c, mask = (self.read(v, 'u32') for v in a[1:5])
        self.emit('{ bool valid; const u32 got = '
                  f'emulated_shuffle(t, {mode}, {value}, {b}, {c}, {mask}, &valid, {self.line});')
        self.write(targets[0], 'got', 'u32')
        if len(targets) > 1:
            self.write(targets[1], 'valid', 'bool')
        self.emit('}')

    def gathered(self, value, mask):
        self.emit('{ u32 present, ballot = 0; const u32* const of = '
                  f'emulated_gather(t, {value}, {mask}, &present, {self.line});')
        self.emit('for (u32 i = 0; i < 32; ++i) if (present >> i & 1 && of[i]) ballot |= 1u << i;')

    def do_vote(self, o, a):
        self.gathered(f'u32({self.read(a[1], "bool")})', self.read(a[2], 'u32'))
        self.write(a[0], {'ballot': 'ballot', 'any': 'ballot != 0', 'all': 'ballot == present',
                          'uni': 'ballot == present || ballot == 0'}[o[2]], 'u32' if o[2] == 'ballot' else 'bool')
        self.emit('}')

    def do_redux(self, o, a):
        kind = VALUE[o[-1]]
        step = {'add': 'x + y', 'and': 'x & y', 'or': 'x | y', 'xor': 'x ^ y', 'min': 'x < y ? x : y',
                'max': 'x > y ? x : y'}[o[2]]
        self.gathered(self.read(a[1], 'u32'), self.read(a[2], 'u32'))
        self.emit(f'bool first = true; {kind} x = 0; for (u32 i = 0; i < 32; ++i) if (present >> i & 1) '
                  f'{{ const {kind} y = {kind}(of[i]); x = first ? y : {kind}({step}); first = false; }}')
        self.write(a[0], 'x', kind)
        self.emit('}')

    def words(self, text):
        return [x.strip() for x in text.strip().strip('{}').split(',')]

    def do_mma(self, o, a):
        if o[1:] != ['sync', 'aligned', 'm16n8k16', 'row', 'col', 'f32', 'bf16', 'bf16', 'f32']:
            raise Unknown('.'.join(o))
        targets, left, right, before = map(self.words, a)
        given = ', '.join(self.read(x, 'u32') for x in left + right)
        sums = ', '.join(self.read(x, 'float') for x in before)
        self.emit(f'{{ const u32 given[6] = {{{given}}}; float sums[4] = {{{sums}}}; '
                  f'add_products(t, given, sums, {self.line});')
        for i, target in enumerate(targets):
            self.write(target, f'sums[{i}]', 'float')
        self.emit('}')

    def do_ldmatrix(self, o, a):
        if o[1:4] != ['sync', 'aligned', 'm8n8'] or o[-1] != 'b16':
            raise Unknown('.'.join(o))
        targets = self.words(a[0])
        if f'x{len(targets)}' != o[4]:
            raise Unknown('number of matrices')
        where, _, _ = self.address(a[1])
        turned = 'true' if 'trans' in o else 'false'
        self.emit(f'{{ u32 words[{len(targets)}]; load_matrices<{len(targets)}, {turned}>'
                  f'(t, words, u32({where}), {self.line});')
        for i, target in enumerate(targets):
            self.write(target, f'words[{i}]', 'u32')
        self.emit('}')

    def do_cp(self, o, a):
        if o[1] != 'async':
            raise Unknown('.'.join(o))
        if o[2] == 'commit_group':
            return self.emit('emulated_copy_commit(t);')
        if o[2] in ('wait_group', 'wait_all'):
            most = self.read(a[0], 'u32') if o[2] == 'wait_group' else '0'
            all_of_it = 'true' if o[2] == 'wait_all' else 'false'
            return self.emit(f'emulated_copy_wait(t, {most}, {all_of_it}, {self.line});')
        if o[2] not in ('ca', 'cg') or not o[3].startswith('shared') or o[4] != 'global' or a[2] != '16':
            raise Unknown('.'.join(o))
        into, source = self.address(a[0])[0], self.address(a[1])[0]
        used = self.read(a[3], 'u32') if len(a) > 3 else '16'
        self.emit(f'emulated_copy_begin(t, {into}, {source}, {used}, {self.line});')

    def do_atom(self, o, a, target=None):
        kind = VALUE[o[-1]]
        shared = 'true' if any(s.startswith('shared') for s in o) else 'false'
        what = next(w for w in ('add', 'min', 'max', 'and', 'or', 'xor', 'exch', 'cas', 'inc', 'dec') if w in o)
        where, _, _ = self.address(a[1])
        y = self.read(a[2], kind)
        step = {'add': f'{kind}(x + {y})', 'min': f'smaller<{kind}>(x, {y})', 'max': f'larger<{kind}>(x, {y})',
                'and': f'{kind}(x & {y})', 'or': f'{kind}(x | {y})', 'xor': f'{kind}(x ^ {y})', 'exch': y,
                'inc': f'{kind}(x >= {y} ? 0 : x + 1)', 'dec': f'{kind}(x == 0 || x > {y} ? {y} : x - 1)'}.get(what)
        if what == 'cas':
            step = f'x == {y} ? {self.read(a[3], kind)} : x'
        change = f'[&]({kind} x) -> {kind} {{ return {step}; }}'
        self.write(a[0], f'atomic<{kind}>(t, {where}, {shared}, {change}, {self.line})', kind)

    def do_red(self, o, a):
        self.do_atom(o, ['_'] + a)

    def do_call(self, o, a):
        m = re.match(r'(?:\(([^)]*)\)\s*,\s*)?([\w$%]+)\s*(?:,\s*\(([^)]*)\))?', a[0].strip())
        results, name, given = (m[1] or '').strip(), m[2], [x.strip() for x in (m[3] or '').split(',') if x.strip()]
        if name == 'vprintf':
            text, values = (f'from_parameter<u64>({self.c_name(g)})' for g in given[:2])
            self.emit(f'{{ const u32 n = emulated_print(t, {text}, {values}); '
                      f'std::memcpy({self.c_name(results)}, &n, 4); }}')
            return
        if name in ('__assertfail', '__assert_fail'):
            self.emit(f'emulated_trap(t, "a failed assertion", {self.line});')
            return
        if name not in self.module.functions:
            raise Unknown(f'call of {name}')
        self.called.add(name)
        places = ['t', self.c_name(results) if results else 'nullptr'] + [self.c_name(g) for g in given]
        self.emit(f'f_{self.c_name(name)}({", ".join(places)});')

    # The whole function

    def declarations(self):
        used = Counter(re.findall(r'\br_\w+', '\n'.join(self.out)))
        found = []
        for name in used:
            for register, kind in self.registers.items():
                base = self.c_name(register.replace('<>', ''))
                if (register.endswith('<>') and re.fullmatch(re.escape(base) + r'\d+', name)) or name == base:
                    found.append(f'  {kind} {name} = 0;')
                    break
        return found

    def signature(self):
        if self.entry:
            return f'extern "C" void emulated_kernel(thread& t)'
        given = ''.join(f', const u8* {self.c_name(n)}' for n in self.parameters)
        result = next(iter(self.result_names), 'func_no_result')
        return f'static void f_{self.c_name(self.name)}(thread& t, u8* {self.c_name(result)}{given})'


def translated(module, name):
    """C++ of an entry with the functions that it calls, and a table of what a launch must know."""
    module.blocks = Blocks()
    entry = Kernel(module, name)
    pattern = r'\.(?:extern\s+)?(?:\.?shared)\s+(?:\.align\s+(\d+)\s+)?\.(\w+)\s+([\w$]+)((?:\[\d*\])*)\s*;'
    for m in re.finditer(pattern, module.outside):
        size = SIZE[STORED[m[2]]]
        dynamic = '[]' in m[4]
        for n in re.findall(r'\d+', m[4]):
            size *= int(n)
        if re.search(r'(?<![\w$])' + re.escape(m[3]) + r'(?![\w$])', entry.body):
            if dynamic:
                entry.dynamic = m[3]
            else:
                entry.place(entry.shared, m[3], size, int(m[1] or 8), True)
    if entry.dynamic:
        for m in re.finditer(r'\.shared\s+(?:\.align\s+(\d+)\s+)?\.(\w+)\s+([\w$]+)((?:\[\d+\])+)', entry.body):
            size = SIZE[STORED[m[2]]]
            for n in re.findall(r'\d+', m[4]):
                size *= int(n)
            entry.place(entry.shared, m[3], size, int(m[1] or 8), True)
        entry.place = lambda *_: None
        entry.shared_end = (entry.shared_end + 127) // 128 * 128
        entry.shared[entry.dynamic] = entry.shared_end
    entry.translate()
    bodies, waiting, done = [], list(entry.called), set()
    while waiting:
        callee = waiting.pop()
        if callee in done:
            continue
        done.add(callee)
        function = Kernel(module, callee)
        function.local_end = entry.local_end  # no function calls itself: each has a place of its own
        function.translate()
        entry.local_end = function.local_end
        bodies.append(function)
        waiting += function.called
    spans = entry.shared_spans
    block = re.search(r'\.maxntid\s+(\d+)(?:\s*,\s*(\d+))?(?:\s*,\s*(\d+))?', entry.limits)
    most = 1
    for n in (block.groups() if block else ('1024',)):
        most *= int(n or 1)
    text = '#include "device_code.hpp"\n'
    variables = []

    def table(kind, name, entries):
        return f'extern "C" {{ extern const {kind} {name}[]; const {kind} {name}[] = {{{", ".join(entries)}}}; }}\n'

    everything = '\n'.join('\n'.join(f.out) for f in bodies + [entry])
    for name_of in sorted(set(re.findall(r'global_(r[\w]+)', everything))):
        text += f'extern "C" {{ u64 global_{name_of} = 0; }}\n'
        kind, many, values = module.variable(name_of)
        text += f'static const {kind} first_{name_of}[{many}] = {{{values}}};\n'
        variables.append(f'{{&global_{name_of}, first_{name_of}, sizeof first_{name_of}}}')
    variables.append('{nullptr, nullptr, 0}')
    text += table('variable', 'emulated_variables', variables)
    blocks, accesses = module.blocks.tables()
    text += table('counted_block', 'emulated_blocks', blocks)
    text += table('counted_access', 'emulated_accesses', accesses)
    for function in bodies:
        text += function.signature() + ';\n'
    for function in bodies + [entry]:
        text += function.signature() + ' {\n'
        if function.entry:
            text += '  const u8* const p = t.in->parameters; static_cast<void>(p);\n'
        text += '\n'.join(function.declarations() + function.out) + '\n}\n'
    waits = re.search('emulated_(barrier|warp_barrier|shuffle|gather|copy)|add_products|load_matrices', everything) is not None
    numbers = {'waits': int(waits), 'shared': entry.shared_end, 'local': entry.local_end, 'max_threads': most,
               'parameter_bytes': entry.parameter_bytes}
    for key, value in numbers.items():
        text += f'extern "C" {{ extern const int emulated_{key}; const int emulated_{key} = {value}; }}\n'
    for first, size, of in (('offsets', 'sizes', entry.parameters.values()), ('shared_at', 'shared_size', spans)):
        for key, numbers in zip((first, size), zip(*of, (-1, -1))):
            text += table('int', f'emulated_{key}', map(str, numbers))
    return text


def file_name(kernel):
    """Named by the same hash as in kernels.cpp."""
    value = 1469598103934665603
    for c in kernel.encode():
        value = (value ^ c) * 1099511628211 & (2**64 - 1)
    return f'{value:016x}.cpp'


def main():
    module = Module(open(sys.argv[1]).read())
    for name, function in module.functions.items():
        if function.entry:
            try:
                text = translated(module, name)
            except Unknown as cause:
                text = f'#error not translated: {cause}'.replace('\n', ' ') + '\n'
            with open(f'{sys.argv[2]}/{file_name(name)}', 'w') as out:
                out.write(text)


if __name__ == '__main__':
    main()
