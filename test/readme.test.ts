// The README must not drift from the code: its tables of failure codes and variables are those of the
// code, its monitors files are valid, and the commands that it names exist.
import { readFileSync, realpathSync } from 'node:fs'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join, relative } from 'node:path'
import { describe, expect, test } from 'vitest'
import { VARIABLES } from '../src/agent/config.ts'
import { readMonitorsFile } from '../src/agent/monitors-file/file.ts'
import { FAILURES } from '../src/contract/failure.ts'
import { RUNTIMES } from '../src/contract/runtimes.ts'
import { LIMITS } from '../src/contract/versions.ts'
import { bytesText, durationText } from '../src/contract/schema/amounts.ts'
import { VARIABLES as PLATFORM_VARIABLES } from '../src/platform/config.ts'
import { postgresFolder } from '../src/database/embedded/folder.ts'
import { MONITOR_TYPES } from '../src/monitors/registry.ts'
import { temporaryFolder } from './support/temporary-folder.ts'

const readme = readFileSync(new URL('../README.md', import.meta.url), 'utf8')

/** Rows of the first table under a heading that contains `heading`, cells trimmed. */
function tableUnder(heading: string): string[][] {
  const from = readme.indexOf(heading)
  expect(from, `README has ${heading}`).toBeGreaterThan(-1)
  const table = /(?:^\|.*\|\n)+/m.exec(readme.slice(from))?.[0] ?? ''
  return table
    .trimEnd()
    .split('\n')
    .slice(2)
    .map((line) =>
      line
        .slice(1, -1)
        .split(' | ')
        .map((cell) => cell.trim()),
    )
}

test('the failure codes are those of the code', () => {
  const rows = tableUnder('Every failure has a stable `code`').map(([code, about, meaning]) => [
    code?.replaceAll('`', ''),
    about,
    meaning,
  ])
  const expected = Object.entries(FAILURES).map(([code, { about, meaning }]) => [
    code,
    about,
    meaning,
  ])
  expect(rows).toEqual(expected)
})

test('the variables and their defaults are those of the code', () => {
  const rows = tableUnder('## Configuration').map(([name, fallback]) => [name, fallback])
  const expected = VARIABLES.map(({ name, default: fallback }) => [`\`${name}\``, fallback])
  expect(rows).toEqual(expected)
})

test('so are those of the platform', () => {
  const rows = tableUnder('### Configuration of the platform').map(([name, fallback]) => [
    name,
    fallback,
  ])
  const expected = PLATFORM_VARIABLES.map(({ name, default: unset }) => [`\`${name}\``, unset])
  expect(rows).toEqual(expected)
})

test('the types of monitors are those that the code runs', () => {
  const row = tableUnder('### Fields of every monitor').find(([field]) => field === '`type`')
  const types = Array.from(row?.[1]?.matchAll(/`([A-Z_]+)`/g) ?? [], ([, type]) => type)
  expect(new Set(types)).toEqual(new Set(MONITOR_TYPES.keys()))
})

test('it says where a runtime has another Node.js on ARM64', () => {
  const plain = readme.replaceAll(/\s+/g, ' ')
  for (const { id, node, nodePackages } of RUNTIMES.values()) {
    const [x64, arm64] = [nodePackages.x64, nodePackages.arm64].map((one) => one.split('@').at(-1))
    expect(x64).toBe(node)
    expect(arm64 === node || plain.includes(`${id}: ${arm64} for ${node}`)).toBe(true)
  }
})

test('what a run of code may use is what the limits say', () => {
  const shared = (kind: 'script' | 'suite', memoryBytes: number) => [
    bytesText(memoryBytes),
    bytesText(LIMITS[`${kind}DiskBytesMax`]),
    bytesText(LIMITS[`${kind}OutputBytesMax`]),
    String(LIMITS[`${kind}ProcessesMax`]),
  ]
  const { scriptMsMax, apiScriptMsMax, suiteInstallMsMax, suiteMsMax, suiteCpuMsMax } = LIMITS
  const { scriptMemoryBytesMax, apiScriptMemoryBytesMax, suiteMemoryBytesMax } = LIMITS
  const suite = [durationText(suiteCpuMsMax), ...shared('suite', suiteMemoryBytesMax)]
  expect(tableUnder('What one run may use').map((row) => row.slice(1))).toEqual([
    [
      durationText(scriptMsMax),
      durationText(2 * scriptMsMax),
      ...shared('script', scriptMemoryBytesMax),
    ],
    [
      `${durationText(apiScriptMsMax)} for each`,
      `${durationText(4 * apiScriptMsMax)} for both`,
      ...shared('script', apiScriptMemoryBytesMax),
    ],
    [durationText(suiteInstallMsMax), ...suite],
    [durationText(suiteMsMax), ...suite],
  ])
})

describe('monitors files', () => {
  const blocks = [...readme.matchAll(/^```yaml\n([\s\S]*?)^```$/gm)]
    .map((match) => match[1] ?? '')
    .filter((yaml) => /^monitors:$/m.test(yaml))

  test('there are some', () => expect(blocks.length).toBeGreaterThan(1))

  test.each(blocks.map((yaml, index) => [index + 1, yaml]))(
    'number %i is valid',
    async (_, yaml) => {
      const folder = await mkdtemp(join(tmpdir(), 'vedette-readme-'))
      const file = join(folder, 'monitors.yaml')
      await writeFile(file, yaml)
      const env = { API_TOKEN: 'secret-token', PROXY_PASSWORD: 'secret-password' }
      const read = await readMonitorsFile(file, env, MONITOR_TYPES)
      await rm(folder, { recursive: true })
      expect(read).toMatchObject({ ok: true })
    },
  )
})

test('the backup of the embedded database asks where its socket is', () => {
  const folder = temporaryFolder()
  const socketFolder = relative(realpathSync(folder), postgresFolder(folder).run)
  expect(readme).toContain(`pg_dump -h "$PWD/data/${socketFolder}" `)
})
