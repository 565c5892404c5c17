"""Holds the table of registers in registers.md: what ptxas gives the kernels whose PTX is in the programs.

    registers.py <all | some> <ptxas> <sm_80,...> <registers.md> <program...>

No kernel spills, and every block that the launch bounds allow fits a multiprocessor. A kernel has no more registers
than its row of the table says, and every row has a kernel, if the programs have all kernels. A row is a kernel, of an
element type where it has one; the kernels over rows, over columns, over elements and over indices have a row for all
layers.
"""

import re
import subprocess
import sys
import tempfile

REGISTERS = 65536  # of a multiprocessor


def modules(program):
    """The PTX of sm_80 in a program that was compiled with --no-compress."""
    data = open(program, 'rb').read()
    for m in re.finditer(rb'\.version \d+\.\d+\n\.target sm_80\n', data):
        yield data[m.start():data.index(b'\0', m.start())]


def type_of(name):
    """'void gpipe::cuda::detail::attend<float>(...)' is in row 'attend<float>'."""
    text = re.sub(r'\b(gpipe|cub|cuda|detail|for_each|CUB_\w+)::', '', name).removeprefix('void ')
    m = re.match(r'(\w+)(?:<(\w+)(?:<(float|double|bf16)>)?(?=\s*[,>]))?', text)
    if m[1] in ('over_rows', 'over_narrow_rows', 'over_columns', 'over_elements', 'over_parameters', 'over_parts',
                'static_kernel'):
        return m[1]
    if m[1] == 'over_indices':  # takes the place of Thrust's kernel where Thrust is newer than 3.0
        return 'static_kernel'
    return m[1] + (f'<{m[2]}<{m[3]}>>' if m[3] else f'<{m[2]}>' if m[2] else '')


def measured(ptxas, architecture, programs):
    """[row]: the most registers; and what is wrong."""
    found, wrong = {}, []
    for ptx in {text for program in programs for text in modules(program)}:
        with tempfile.NamedTemporaryFile(suffix='.ptx') as file:
            file.write(ptx)
            file.flush()
            text = subprocess.run([ptxas, '-v', f'-arch={architecture}', file.name, '-o', '/dev/null'], check=True,
                                  stderr=subprocess.PIPE, text=True).stderr
        bounds = {}
        for m in re.finditer(r'\.entry (\w+)\([^)]*\)\s*((?:\.\w+ [^\n]*\n)*)', ptx.decode()):
            threads = re.search(r'\.maxntid (\d+)(?:, (\d+))?(?:, (\d+))?', m[2])
            bounds[m[1]] = eval('*'.join(n for n in threads.groups() if n)) if threads else 1024
        plain = subprocess.run(['c++filt'], input='\n'.join(bounds), check=True, stdout=subprocess.PIPE, text=True)
        readable = dict(zip(bounds, plain.stdout.split('\n')))
        pattern = (r"Compiling entry function '(\w+)'.*?(\d+) bytes spill stores, (\d+) bytes spill loads"
                   r".*?Used (\d+) registers")
        for m in re.finditer(pattern, text, re.S):
            if not re.match(r'(void )?(gpipe|cub|thrust)::', readable[m[1]]):
                continue  # a test's own
            name, registers, row = readable[m[1]][:150], int(m[4]), type_of(readable[m[1]])
            if m[2] != '0' or m[3] != '0':
                wrong.append(f'{architecture}: spills {m[2]} and loads {m[3]} bytes: {name}')
            if (registers + 7) // 8 * 8 * bounds[m[1]] > REGISTERS:
                wrong.append(f'{architecture}: {bounds[m[1]]} threads of {registers} registers: {name}')
            found[row] = max(found.get(row, 0), registers)
    return found, wrong


def table(path):
    """[architecture][row]: registers."""
    heads, found = [], {}
    for line in open(path):
        cells = [c.strip(' `') for c in line.strip().strip('|').split('|')]
        if line.startswith('| kernel'):
            heads = cells[1:]
        elif heads and line.startswith('| `'):
            for head, cell in zip(heads, cells[1:]):
                found.setdefault(head, {})[cells[0]] = int(cell)
    return found


def main():
    kernels, ptxas, architectures, path, *programs = sys.argv[1:]
    allowed, failures = table(path), []
    for architecture in architectures.split(','):
        found, wrong = measured(ptxas, architecture, programs)
        failures += wrong
        for row, registers in sorted(found.items()):
            print(f'{architecture} {row}: {registers} registers')
            if registers > allowed[architecture].get(row, 0):
                failures.append(f'{architecture}: {row} has {registers} registers, and the table '
                                f'{allowed[architecture].get(row, "no row")}')
        failures += [f'{architecture}: the table has {row}, and no program'
                     for row in allowed[architecture] if kernels == 'all' and row not in found]
    for failure in failures:
        print(failure)
    sys.exit(1 if failures else 0)


if __name__ == '__main__':
    main()
