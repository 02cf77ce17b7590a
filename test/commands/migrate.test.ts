// Aim: `vedette migrate` changes nothing without --apply, and with it the places alone whose monitors agree; it
// says what is wrong with what it was given, and leaves nothing behind when it is interrupted.
import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { eventually } from '../support/eventually.ts'
import { namedRuntimes } from '../support/named-runtimes.ts'
import { startVedette } from '../support/platform-process.ts'
import { processesIn } from '../support/processes-in.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'

const TIME = 240_000
const tools = namedRuntimes('2024.09', '2026.04')
const BOTH = ['--from', '2024.09', '--to', '2026.04']

function start(args: readonly string[], env: Record<string, string> = {}) {
  return startVedette(['migrate', ...args], { TOOLS_DIR: tools, ...env })
}

function fileWith(...lines: string[]): string {
  const path = join(temporaryFolder(), 'monitors.yaml')
  writeFileSync(path, lines.join('\n'))
  return path
}

const multistep = (name: string, script: string, more = '') =>
  `  - { name: ${name}, type: MULTI_STEP, every: 10m${more}, script: "${script}" }`
const OLD = ', runtimeId: "2024.09"'
const ONLY_OLD = `if (require('runtime-name') !== '2024.09') throw new Error('too new')`

const TEXT = [
  '# What the shop needs.',
  'groups:',
  "  steady: { runtimeId:   '2024.09' } # all agree",
  '  torn: { runtimeId: "2024.09" }',
  'monitors:',
  multistep('Own', 'console.log(1)', OLD),
  multistep('Steady', 'console.log(1)', ', group: steady'),
  multistep('Torn', ONLY_OLD, ', group: torn'),
  multistep('Whole', 'console.log(1)', ', group: torn, activated: false'),
  multistep('New', 'console.log(1)', ', runtimeId: "2026.04"'),
  multistep('Unnamed', 'console.log(1)'),
  '',
]

test(
  'a file is compared, changed where all agree, and then there is nothing left to do',
  async () => {
    const path = fileWith(...TEXT)
    const compared = await start([...BOTH, path]).ended
    expect(compared.stderr).toBe('')
    expect(compared.code).toBe(1)
    expect(compared.stdout).toMatch(/agrees +Own +MULTI_STEP +passed/)
    expect(compared.stdout).toMatch(/differs +Torn +MULTI_STEP +passed .*failed/)
    expect(compared.stdout).toContain('on 2026.04: SCRIPT_FAILED: too new')
    expect(compared.stdout).toContain('3 agree, 1 differs (4 monitors on 2024.09; 2 on 2026.04')
    expect(compared.stdout).toContain(`${path}:4 stays 2024.09: “Torn” differs`)
    expect(readFileSync(path, 'utf8')).toBe(TEXT.join('\n'))

    const applied = await start([...BOTH, path, '--apply']).ended
    expect(applied.code).toBe(1)
    const expected = TEXT.map((line, index) =>
      index === 2 || index === 5 ? line.replace('2024.09', '2026.04') : line,
    ).join('\n')
    expect(readFileSync(path, 'utf8')).toBe(expected)
    expect(readdirSync(join(path, '..'))).toEqual(['monitors.yaml'])

    const again = await start([...BOTH, path, '--apply', '--json']).ended
    const said = JSON.parse(again.stdout) as { monitors: { name: string }[]; movedAlready: number }
    expect(said.monitors.map(({ name }) => name)).toEqual(['Torn', 'Whole'])
    expect(said.movedAlready).toBe(4)
    expect(readFileSync(path, 'utf8')).toBe(expected)
  },
  TIME,
)

test(
  'a file whose scripts all agree, or that has none, is no problem',
  async () => {
    const good = fileWith('monitors:', multistep('Own', 'console.log(1)', OLD))
    expect((await start([...BOTH, good]).ended).code).toBe(0)
    const none = fileWith('monitors:', multistep('New', 'console.log(1)'))
    const { code, stdout } = await start([...BOTH, none], { TOOLS_DIR: '/nowhere' }).ended
    expect({ code, stdout }).toEqual({
      code: 0,
      stdout: 'no monitor with scripts is on 2024.09; 1 on 2026.04 already\n',
    })
  },
  TIME,
)

test.each<[string, string[], string]>([
  ['no runtime is named', [], '--from is missing'],
  ['there is no such runtime', ['--from', '2019.01', '--to', '2026.04'], 'there is no such'],
  ['both are the same', ['--from', '2026.04', '--to', '2026.04'], 'are both 2026.04'],
  ['a location is named beside a file', [...BOTH, 'a.yaml', '--location', 'x'], '--location'],
  ['there is no file', [...BOTH, '/nowhere.yaml'], 'does not exist'],
  ['no platform is named', BOTH, 'ACCOUNT_ID is not set'],
])('where %s, it ends with 2', async (_, args, words) => {
  const { code, stderr } = await start(args).ended
  expect(code).toBe(2)
  expect(stderr).toContain(words)
})

test('a runtime that is missing is named with the line that installs it', async () => {
  const path = fileWith('monitors:', multistep('Own', 'console.log(1)', OLD))
  const some = namedRuntimes('2024.09')
  const { code, stderr } = await start([...BOTH, path], { TOOLS_DIR: some }).ended
  expect(code).toBe(2)
  expect(stderr).toContain('vedette runtime install 2026.04')
})

test(
  'an interrupted comparison ends with 130, with nothing written and nothing running',
  async () => {
    const path = fileWith('monitors:', multistep('Waits', 'setInterval(() => {}, 1e9)', OLD))
    const work = temporaryFolder()
    const started = start([...BOTH, path, '--apply'], { TMPDIR: work })
    await eventually(() => processesIn(join(work, 'vedette-run-')).length > 0)
    started.kill('SIGINT')
    const { code, stderr } = await started.ended
    expect(code).toBe(130)
    expect(stderr).toContain('nothing was changed')
    expect(readFileSync(path, 'utf8')).toContain('2024.09')
    expect(readdirSync(work).filter((one) => one.startsWith('vedette-run'))).toEqual([])
    expect(processesIn(work)).toEqual([])
  },
  TIME,
)
