// `vedette migrate` changes nothing without --apply, and with it only the places whose monitors agree.
import { execFileSync } from 'node:child_process'
import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { RUNTIMES } from '../../../src/contract/runtimes.ts'
import { openToolchains } from '../../../src/scripts/toolchains.ts'
import { eventually } from '../../support/eventually.ts'
import { namedRuntimes } from '../../support/platform/named-runtimes.ts'
import { pinned, startNpmRegistry } from '../../support/suites/npm-registry.ts'
import { startVedette } from '../../support/platform/platform-process.ts'
import { processesIn } from '../../support/processes-in.ts'
import { mountSmallDisk } from '../../support/small-disk.ts'
import { temporaryFile, temporaryFolder } from '../../support/temporary-folder.ts'
import { startHttpServer } from '../../support/test-server.ts'

const tools = namedRuntimes('2024.09', '2026.04')
const BOTH = ['--from', '2024.09', '--to', '2026.04']

function start(args: readonly string[], env: Record<string, string> = {}) {
  return startVedette(['migrate', ...args], { TOOLS_DIR: tools, ...env })
}

const fileWith = (...lines: string[]) => temporaryFile('monitors.yaml', lines.join('\n'))

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

test('a file is compared, changed where all agree, and then there is nothing left to do', async () => {
  const path = fileWith(...TEXT)
  const compared = await start([...BOTH, path]).ended
  expect(compared).toMatchObject({ code: 1, stderr: '' })
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
})

test('whether the file can be written is tried before anything runs', async ({ skip }) => {
  skip(process.getuid?.() !== 0, 'needs root, to mount a read-only disk')
  const disk = mountSmallDisk('size=64k')
  onTestFinished(disk.remove)
  const path = join(disk.folder, 'monitors.yaml')
  // It would run for ever.
  writeFileSync(path, `monitors:\n${multistep('Waits', 'setInterval(() => {}, 1e9)', OLD)}`)
  execFileSync('mount', ['-o', 'remount,ro', disk.folder])
  const { code, stdout, stderr } = await start([...BOTH, path, '--apply']).ended
  expect([code, stdout]).toEqual([2, ''])
  expect(stderr).toMatch(/monitors\.yaml cannot be rewritten: EROFS.*--user/)
})

test('API monitors with scripts of their own or of their group move, and others do not change', async () => {
  const site = await startHttpServer((request, response) => {
    response.end(String(request.headers['x-runtime']))
  })
  const api = (name: string, more: string) =>
    `  - { name: ${name}, type: API, every: 10m, request: { method: GET, url: "http://${site.authority}/" }, ${more} }`
  const marks = `request.headers['x-runtime'] = require('runtime-name')`
  const path = fileWith(
    'groups:',
    `  shop: { runtimeId: "2024.09", localSetupScript: "${marks}" }`,
    'monitors:',
    api('Grouped', 'group: shop, localTearDownScript: "response.statusCode"'),
    api('Own', `runtimeId: "2024.09", localSetupScript: "${marks}"`),
    api('Torn', `runtimeId: "2024.09", localTearDownScript: "${ONLY_OLD}"`),
    api('Plain', 'runtimeId: "2024.09"'),
    '',
  )
  const { code, stdout, stderr } = await start([...BOTH, path, '--apply']).ended
  await site.close()
  expect({ code, stderr }).toEqual({ code: 1, stderr: '' })
  expect(stdout).toMatch(/agrees +Grouped +API +passed .*passed/)
  expect(stdout).toMatch(/agrees +Own +API +passed .*passed/)
  expect(stdout).toMatch(/differs +Torn +API +passed .*failed/)
  expect(stdout).toContain('2 agree, 1 differs (3 monitors on 2024.09')
  const runtimes = readFileSync(path, 'utf8').match(/runtimeId: "[^"]+"/g)
  expect(runtimes).toEqual(
    ['2026.04', '2026.04', '2024.09', '2024.09'].map((id) => `runtimeId: "${id}"`),
  )
})

test('with --install missing runtimes are installed, and standard output has the report alone', async () => {
  const arch = process.arch === 'arm64' ? 'arm64' : 'x64'
  const packages = ['2024.09', '2026.04'].flatMap((id) => {
    const one = RUNTIMES.get(id)
    const files = { 'bin/node': '#!/bin/sh\n' }
    return [
      pinned(one?.nodePackages[arch] ?? '', files),
      ...Object.entries(one?.packages ?? {}).map((name) => pinned(name.join('@'))),
    ]
  })
  const registry = await startNpmRegistry(packages)
  const path = fileWith('monitors:', multistep('Own', 'console.log(1)', OLD))
  const TOOLS_DIR = temporaryFolder()
  const args = [...BOTH, path, '--install', '--json']
  const { code, stdout, stderr } = await start(args, { ...registry.env, TOOLS_DIR }).ended
  await registry.server.close()
  expect(code).toBe(1)
  expect(stderr).toContain(`2026.04 is installed in ${TOOLS_DIR}`)
  // That Node.js does not work, which says nothing about the script.
  expect(JSON.parse(stdout)).toMatchObject({ monitors: [{ name: 'Own', state: 'not-run' }] })
  expect(await openToolchains(TOOLS_DIR).installed('runtime')).toEqual(['2024.09', '2026.04'])
})

test('a file whose scripts all agree, or that has none, is no problem', async () => {
  const good = fileWith('monitors:', multistep('Own', 'console.log(1)', OLD))
  expect((await start([...BOTH, good]).ended).code).toBe(0)
  const none = fileWith('monitors:', multistep('New', 'console.log(1)'))
  const { code, stdout } = await start([...BOTH, none], { TOOLS_DIR: '/nowhere' }).ended
  const said = 'no monitor with scripts uses 2024.09; 1 on 2026.04 already\n'
  expect([code, stdout]).toEqual([0, said])
})

test.each<[string, string[], string]>([
  ['no runtime is named', [], '--from is missing'],
  ['there is no such runtime', ['--from', '2019.01', '--to', '2026.04'], 'unknown runtime'],
  ['both are the same', ['--from', '2026.04', '--to', '2026.04'], 'are both 2026.04'],
  ['a location is named next to a file', [...BOTH, 'a.yaml', '--location', 'x'], '--location'],
  ['there is no file', [...BOTH, '/nowhere.yaml'], 'does not exist'],
  ['no platform is named', BOTH, 'ACCOUNT_ID is not set'],
])('where %s, it ends with 2', async (_, args, message) => {
  const { code, stderr } = await start(args).ended
  expect([code, stderr]).toEqual([2, expect.stringContaining(message)])
})

test('a missing runtime is reported with the command that installs it', async () => {
  const path = fileWith('monitors:', multistep('Own', 'console.log(1)', OLD))
  const some = namedRuntimes('2024.09')
  const { code, stderr } = await start([...BOTH, path], { TOOLS_DIR: some }).ended
  expect([code, stderr]).toEqual([2, expect.stringContaining('vedette runtime install 2026.04')])
})

test('an interrupted comparison ends with 130, with nothing written and nothing running', async () => {
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
})
