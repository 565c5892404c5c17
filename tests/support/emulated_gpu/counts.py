"""What counts.cpp must know of a kernel: its blocks of instructions, which pipe each instruction goes to, and where the
paths of a warp join again.

A block is a run of instructions that a thread enters at its first and leaves behind its last; a barrier and a call end
one, too. ptxas makes machine instructions of PTX: COST says how many, and in which pipe, by what ptxas of CUDA 13.0
makes of a kernel with one instruction more (sm_80). It does not see what ptxas merges, moves and unrolls.
"""

import re

from ptx import SIZE, VALUE

PIPES = ('float', 'double', 'integer', 'special', 'tensor', 'load_store', 'control')
FREE = ('mov', 'cvta', 'isspacep', 'membar', 'fence', 'prefetch', 'prefetchu', 'discard', 'nanosleep')
JUMPS = ('bra', 'ret', 'exit', 'trap', 'bar', 'barrier', 'call')  # the last of a block
FLOATING = ('f32', 'f64', 'f16', 'f16x2', 'bf16', 'bf16x2')
COMPARISONS = ('setp', 'set', 'selp', 'min', 'max', 'testp', 'copysign')

# (operation, type) -> pipes. A type of several sizes is i: an integer of up to 32 bits, l: of 64.
COST = {
    ('div', 'i'): {'integer': 20, 'special': 3}, ('rem', 'i'): {'integer': 20, 'special': 3},
    ('div', 's64'): {'integer': 92, 'special': 3}, ('rem', 's64'): {'integer': 90, 'special': 3},
    ('div', 'l'): {'integer': 65, 'special': 3}, ('rem', 'l'): {'integer': 65, 'special': 3},
    ('mul', 'l'): {'integer': 4}, ('mad', 'l'): {'integer': 4}, ('mul.hi', 'l'): {'integer': 7},
    ('min', 'l'): {'integer': 4}, ('max', 'l'): {'integer': 4}, ('clz', 'i'): {'special': 1, 'integer': 1},
    ('bfe', 'i'): {'integer': 2}, ('bfi', 'i'): {'integer': 2},
    # The ways of ordinary numbers, and the test whether they are.
    ('div', 'f32'): {'float': 8, 'special': 2, 'control': 3},
    ('rcp', 'f32'): {'float': 3, 'integer': 2, 'special': 1, 'control': 3},
    ('sqrt', 'f32'): {'float': 5, 'integer': 2, 'special': 1, 'control': 3},
    ('div', 'f64'): {'double': 8, 'integer': 4, 'special': 1, 'control': 3},
    ('rcp', 'f64'): {'double': 5, 'integer': 3, 'special': 1, 'control': 3},
    ('sqrt', 'f64'): {'double': 9, 'integer': 3, 'special': 1, 'control': 3},
}
SCALED = {'float': 2, 'integer': 1, 'special': 1}  # without .ftz: numbers below 2^-126 are scaled, and scaled back
SPECIAL = ('rcp', 'rsqrt', 'sqrt', 'ex2', 'lg2', 'sin', 'cos', 'tanh')


def cost(o, a):
    """The machine instructions of an operation, by pipe; a product of tensor cores counts its multiply-adds."""
    name, kind = o[0], o[-1]
    if name == 'mov' and kind == 'b32' and '{' in a[0] + a[1]:
        return {'integer': 1}  # of two 16-bit parts
    if name in FREE or name in ('ld', 'st', 'ldu') and ('param' in o or 'const' in o):
        return {}
    if name == 'cp' and len(a) < 2:
        return {'control': 1}  # commit or wait
    if name in ('ld', 'st', 'ldu', 'ldmatrix', 'cp', 'shfl', 'atom', 'red', 'redux'):
        return {'load_store': 1}
    if name == 'mma':
        m, n, k = re.fullmatch(r'm(\d+)n(\d+)k(\d+)', next(s for s in o if re.match(r'm\d', s))).groups()
        return {'tensor': int(m) * int(n) * int(k)}
    if name in JUMPS:
        return {'control': 1}
    if name in SPECIAL and ('approx' in o or name == 'tanh'):
        if kind == 'f32' and 'ftz' not in o and name in ('ex2', 'lg2', 'rsqrt'):
            return SCALED
        return {'float': 1, 'special': 1} if name in ('sin', 'cos') else {'special': 1}
    if name == 'div' and ('approx' in o or 'full' in o):
        return {'float': 5, 'integer': 3, 'special': 1}
    if name == 'cvt':
        to = o[-2]
        if (to in FLOATING) != (kind in FLOATING) or 'f64' in (to, kind) or any(r in o for r in ('rni', 'rzi', 'rmi')):
            return {'special': 1}
        return {} if kind.endswith('64') else {'integer': 1}
    if kind in FLOATING:
        pipe = 'double' if kind == 'f64' else 'float'
        return COST.get((name, kind), {'integer' if name in COMPARISONS and kind != 'f64' else pipe: 1})
    long = kind.endswith('64')
    if name in ('mul', 'mad'):
        if 'wide' in o:
            return {'integer': 1}
        name = 'mul.hi' if long and 'hi' in o else name
    if name in ('popc', 'brev', 'bfind'):
        return {'special': 2 if long else 1}
    return COST.get((name, kind)) or COST.get((name, 'l' if long else 'i'), {'integer': 2 if long else 1})


def accesses(o, a):
    """(address, bytes, writes, in shared memory) of each access of an instruction to global or shared memory."""
    name = o[0]
    if any(s in o for s in ('param', 'local', 'const')):
        return []
    shared = any(s.split('::')[0] == 'shared' for s in o)
    if name == 'cp' and len(a) > 1:
        return [(a[0], 16, True, True), (a[1], 16, False, False)]
    if name == 'ldmatrix':
        return [(a[1], 16, False, True)]
    if name in ('ld', 'ldu', 'st'):
        registers, at = (a[0], a[1]) if name != 'st' else (a[1], a[0])
        return [(at, SIZE[VALUE[o[-1]]] * len(registers.split(',')), name == 'st', shared)]
    if name in ('atom', 'red'):
        return [(a[1] if name == 'atom' else a[0], SIZE[VALUE[o[-1]]], True, shared)]
    return []


class Block:
    def __init__(self, label=None):
        self.label, self.pipes, self.barriers, self.accesses = label, dict.fromkeys(PIPES, 0), 0, []
        self.targets, self.falls = [], True  # labels; and whether it goes on to the next block


class Blocks:
    """The blocks of a kernel and of the functions that it calls, in the order of their numbers."""

    def __init__(self):
        self.all, self.joins = [], {}

    def begin_function(self, entry):
        """Its first block is its end, where all ways through it join."""
        self.first, self.entry = len(self.all), entry
        self.all.append(Block())

    def enter(self, label=None):
        self.all.append(Block(label))
        return len(self.all) - 1

    def add(self, o, a, guarded):
        """The accesses of an instruction of the block that was entered last."""
        block = self.all[-1]
        for pipe, count in cost(o, a).items():
            block.pipes[pipe] += count
        block.barriers += o[0] in ('bar', 'barrier') and 'sync' in o
        found = accesses(o, a)
        block.accesses += [f'{{{size}, {int(writes)}}}' for _, size, writes, _ in found]
        if o[0] == 'bra':
            block.targets.append(a[0])
        if o[0] in ('bra', 'ret', 'exit', 'trap') and not guarded:
            block.falls = False
        if o[0] in ('ret', 'exit', 'trap'):
            block.targets.append(None)
        return found

    def end_function(self):
        """Finds where the ways out of each block join: the block's nearest post-dominator."""
        end, count = self.first, len(self.all)
        at = {self.all[i].label: i for i in range(end + 1, count)}
        at[None] = end
        following = {i: [at[label] for label in self.all[i].targets] +
                     ([i + 1 if i + 1 < count else end] if self.all[i].falls else []) for i in range(end + 1, count)}
        before = {i: [] for i in range(end, count)}
        for i, others in following.items():
            for other in others:
                before[other].append(i)
        order, seen, stack = [], {end}, [(end, iter(before[end]))]
        while stack:
            node, rest = stack[-1]
            other = next((x for x in rest if x not in seen), None)
            if other is None:
                order.append(node)
                stack.pop()
            else:
                seen.add(other)
                stack.append((other, iter(before[other])))
        rank = {node: i for i, node in enumerate(order)}  # the end has the highest
        joins, changed = {end: end}, True
        while changed:
            changed = False
            for node in reversed(order[:-1]):
                new = None
                for other in following[node]:
                    if other not in joins:
                        continue
                    x = other
                    while new is not None and new != x:
                        while rank[x] < rank[new]:
                            x = joins[x]
                        while rank[new] < rank[x]:
                            new = joins[new]
                    new = x
                if joins.get(node) != new:
                    joins[node], changed = new, True
        for node, join in joins.items():
            self.joins[node] = -1 if node == end or self.entry and join == end else join

    def tables(self):
        """The entries of two tables in C++: blocks, and accesses."""
        blocks, found = [], []
        for i, block in enumerate(self.all):
            pipes = ', '.join(str(block.pipes[pipe]) for pipe in PIPES)
            blocks.append(f'{{{{{pipes}}}, {block.barriers}, {len(found)}, {len(block.accesses)}, '
                          f'{self.joins.get(i, -1)}}}')
            found += block.accesses
        return blocks, found + ['{0, 0}']
