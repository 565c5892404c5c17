"""The text of a PTX module, in parts."""

import re
from collections import namedtuple

STORED = {'pred': 'bool', 'b8': 'u8', 'u8': 'u8', 's8': 'u8', 'b16': 'u16', 'u16': 'u16', 's16': 'u16', 'f16': 'u16',
          'bf16': 'u16', 'b32': 'u32', 'u32': 'u32', 's32': 'u32', 'f16x2': 'u32', 'bf16x2': 'u32', 'b64': 'u64',
          'u64': 'u64', 's64': 'u64', 'f32': 'float', 'f64': 'double'}
VALUE = dict(STORED, s8='s8', s16='s16', s32='s32', s64='s64')
SIZE = {'bool': 1, 'u8': 1, 's8': 1, 'u16': 2, 's16': 2, 'u32': 4, 's32': 4, 'float': 4, 'u64': 8, 's64': 8,
        'double': 8}

Function = namedtuple('Function', 'entry results parameters body limits')


class Unknown(Exception):
    """PTX that the translator does not know."""


def name_in_c(name):
    return 'r' + re.sub(r'[^\w]', '_', name)


def strip(text):
    """Without comments; lines stay where they are."""
    text = re.sub(r'/\*.*?\*/', lambda m: '\n' * m[0].count('\n'), text, flags=re.S)
    return re.sub(r'//[^\n]*', '', text)


def split_operands(text):
    found, depth, now = [], 0, ''
    for c in text:
        if c in '{([':
            depth += 1
        if c in '})]':
            depth -= 1
        if c == ',' and depth == 0:
            found.append(now.strip())
            now = ''
        else:
            now += c
    return found + [now.strip()] if now.strip() else found


def parameters(text):
    """The parameters of a list: name -> (offset, bytes), and the bytes of all."""
    found, at = {}, 0
    for one in split_operands(text):
        m = re.match(r'\.param\s+(?:\.align\s+(\d+)\s+)?\.(\w+)\s*(?:\.ptr\S*(?:\s+\.\w+)*(?:\s+\.align\s+\d+)?\s+)?'
                     r'([\w$%]+)(?:\[(\d*)\])?', one)
        if not m:
            m = re.match(r'\.reg\s+()\.(\w+)\s+([\w$%]+)()', one)
        size = SIZE[STORED[m[2]]]
        align = int(m[1] or size)
        size *= int(m[4] or 1)
        at = (at + align - 1) // align * align
        found[m[3]] = (at, size)
        at += size
    return found, at


class Module:
    def __init__(self, text):
        self.text = strip(text)
        self.functions = {}
        pattern = r'\.(entry|func)\s*(?:\(([^)]*)\)\s*)?([\w$]+)\s*(?:\(([^)]*)\))?([^{;]*)([{;])'
        at = 0
        while m := re.compile(pattern).search(self.text, at):
            at = m.end()
            if m[6] == ';':
                continue
            depth, end = 1, m.end()
            while depth:
                brace = re.compile('[{}]').search(self.text, end)
                depth += 1 if brace[0] == '{' else -1
                end = brace.end()
            self.functions[m[3]] = Function(m[1] == 'entry', m[2] or '', m[4] or '', self.text[m.end():end - 1], m[5])
            at = end
        self.outside = self.text
        for function in self.functions.values():
            self.outside = self.outside.replace(function.body, '')
        variable = r'\.(?:global|const)\s+[^;]*?([\w$]+)\s*(?:\[\d*\])*\s*(?:=[^;]*)?;'
        self.globals = set(re.findall(variable, self.outside))

    def variable(self, c_name):
        """The type, number and first values of a module's variable."""
        pattern = (r'\.(?:global|const)\s+(?:\.align\s+\d+\s+)?\.(\w+)\s+([\w$]+)((?:\[\d*\])*)'
                   r'\s*(?:=\s*([^;]*))?;')
        for m in re.finditer(pattern, self.outside):
            if name_in_c(m[2]) != c_name:
                continue
            many = 1
            for n in re.findall(r'\d+', m[3]):
                many *= int(n)
            values = re.sub(r'[{}]', '', m[4] or '')
            if re.search(r'[g-zG-Z_]', values.replace('0x', '')):
                raise Unknown(f'first value of {m[2]}')
            return STORED[m[1]], many, values
        raise Unknown(f'variable {c_name}')
