// The command line answers every wrong argument with the right one, and documents itself in its help.
import { expect, test } from 'vitest'
import { type Arguments, type Program, runCommandLine } from '../../src/process/command-line.ts'

/** Runs a program with one command; the exit code, and what it wrote and called. */
async function run(argv: readonly string[]) {
  const made = { out: '', err: '', calls: [] as Arguments[] }
  const topics = () => [['gates', 'Of gates']] as [string, string][]
  const page = (topic: string) => (topic === 'gates' ? 'A gate is open or shut.\n' : undefined)
  const sentry: Program = {
    name: 'sentry',
    version: '1.2.3',
    summary: 'stands watch',
    epilogue: 'The end.',
    manual: () => Promise.resolve({ topics, page }),
    write: (text) => (made.out += text),
    complain: (text) => (made.err += text),
    commands: [
      {
        name: 'watch',
        summary: 'watches',
        positionals: ['[place]', '<north|south>'],
        description: 'Watches a place.',
        options: {
          json: { help: 'as JSON' },
          only: { value: '<name>', help: 'one alone' },
        },
        variables: [{ name: 'GATE', default: '80', meaning: 'Which gate' }],
        examples: [['sentry watch gate', 'watches the gate']],
        run: (args) => {
          made.calls.push(args)
          return Promise.resolve(7)
        },
      },
    ],
  }
  return { code: await runCommandLine(sentry, argv), ...made }
}

test.each([
  ['nothing at all shows the overview', [], 'Usage: sentry <command>'],
  ['a mistyped command', ['wach'], 'unknown command "wach"; did you mean watch?'],
  ['an unknown command', ['fly-away-now'], 'known are watch'],
  ['a mistyped topic', ['help', 'gate'], 'unknown topic "gate"; did you mean gates?'],
  ['an unknown topic', ['help', 'fly-away-now'], 'sentry help lists them'],
  ['a mistyped option', ['watch', '--jsn'], 'unknown option --jsn; did you mean --json?'],
  ['an option without its value', ['watch', '--only'], 'needs a value; write --only=<name>\n'],
  ['an option before its value', ['watch', '--only', '--json'], 'write --only=<name>\n'],
  ['a switch with a value', ['watch', '--json=1'], 'the option --json takes no value\n'],
  ['one argument too many', ['watch', 'a', 'north', 'b'], 'unexpected argument "b"'],
  ['an argument that is missing', ['watch', 'a'], 'the argument <north|south> is missing'],
  ['a mistyped argument', ['watch', 'a', 'nroth'], '"nroth"; did you mean north?'],
  ['an unknown argument', ['watch', 'a', 'up'], '"up"; known are north, south'],
  ['an empty argument', ['watch', '', 'north'], 'the argument [place] is empty'],
  ['an empty value', ['watch', 'a', 'north', '--only='], 'the option --only is empty'],
  ['an option twice', ['watch', '--only', 'a', '--only=b'], '--only is given twice'],
  ['a mistyped option without a command', ['--hlep'], 'did you mean --help?'],
  ['a second topic', ['help', 'gates', 'watch'], 'unexpected argument "watch"'],
  ['a second argument of --help', ['--help', 'watch', 'b'], 'unexpected argument "b"'],
  ['an argument of --version', ['--version', 'x'], 'unexpected argument "x"'],
])('%s', async (_, argv, expected) => {
  const { code, err, calls } = await run(argv)
  expect([code, calls]).toEqual([2, []])
  expect(err).toContain(expected)
})

test.each([
  [['--help'], 'watch  watches'],
  [['help'], 'gates  Of gates'],
  [['help', 'gates'], 'A gate is open or shut.'],
  [['help', 'watch'], '--only <name>  one alone'],
  [['help', 'WATCH'], '--only <name>  one alone'],
  [['watch', '--help'], '  GATE  Which gate (default 80)'],
  [['--version'], '1.2.3'],
])('%j', async (argv, expected) => {
  const { code, out } = await run(argv)
  expect([code, out]).toEqual([0, expect.stringContaining(expected)])
})

test('a command gets its arguments and gives the exit code', async () => {
  const { code, calls } = await run(['watch', 'gate', 'north', '--json', '--only', 'east'])
  const args = calls[0] as Arguments
  expect([code, args.positionals]).toEqual([7, ['gate', 'north']])
  expect([args.on('json'), args.value('only'), args.value('json')]).toEqual([true, 'east', true])
})
