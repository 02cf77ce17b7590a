// Aim: the README and the manual pages match the code. Their tables of fields, failure codes, metrics, limits,
// variables and commands are those of the code; pages of monitor types are built alike; all are short to read.
import { existsSync, globSync, readFileSync } from 'node:fs'
import { constants } from 'node:os'
import { dirname, join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { VARIABLES } from '../src/agent/config.ts'
import { COMMANDS } from '../src/cli/commands.ts'
import { API_BOUNDS } from '../src/contract/api/bounds.ts'
import { FAILURES, type FailureTable } from '../src/contract/failure.ts'
import { commonFields } from '../src/contract/monitor.ts'
import { MISSED_REASONS, VERDICTS } from '../src/contract/result.ts'
import { RUNTIMES } from '../src/contract/runtimes.ts'
import { bytesText, durationText } from '../src/contract/schema/amounts.ts'
import { TlsSettings } from '../src/contract/tls.ts'
import { LIMITS } from '../src/contract/versions.ts'
import { DEFINED_TYPES, DEFINITIONS } from '../src/monitors/definitions.ts'
import { EXIT } from '../src/process/exit-codes.ts'
import { ALERT_BOUNDS } from '../src/platform/alerts/channel-schema.ts'
import { PING_BOUNDS } from '../src/platform/heartbeats/pings.ts'
import { VARIABLES as PLATFORM_VARIABLES } from '../src/platform/config.ts'
import { fieldProblems } from './support/documented-fields.ts'
import {
  anchorsIn,
  chapter,
  page,
  pageOf,
  pages,
  sentencesIn,
  tablesIn,
  withLinkedPages,
  wordsOf,
} from './support/pages.ts'

const root = new URL('..', import.meta.url).pathname

/** Rows of the first table behind `heading`. */
function tableUnder(heading: string, text: string): string[][] {
  const from = text.indexOf(heading)
  expect(from, `the page has ${heading}`).toBeGreaterThan(-1)
  return tablesIn(text.slice(from))[0]?.rows ?? []
}

/** Cells of the first column of every table with this head, without quotes. */
const firstCells = (head: string, text: string) =>
  tablesIn(text)
    .filter((table) => table.head[0] === head)
    .flatMap(({ rows }) => rows.map(([cell = '']) => cell.replaceAll('`', '')))

describe('every page', () => {
  test('has at most 300 lines, the README 250', () => {
    const tooLong = [...pages].filter(
      ([path, text]) => text.split('\n').length > (path === 'README.md' ? 250 : 300),
    )
    expect(tooLong.map(([path]) => path)).toEqual([])
  })

  test('begins with its title and what it is about', () => {
    const others = [...pages].filter(([, text]) => !/^# .+\n\n(?!```)[^#|\n-]/.test(text))
    expect(others.map(([path]) => path)).toEqual([])
  })

  test('has sentences of at most 25 words', () => {
    const tooLong = [...pages].flatMap(([path, text]) =>
      sentencesIn(text)
        .filter((sentence) => wordsOf(sentence) > 25)
        .map((sentence) => `${path}: ${sentence}`),
    )
    expect(tooLong).toEqual([])
  })

  test('has tables that fit a screen', () => {
    const tooWide = [...pages].flatMap(([path, text]) =>
      text
        .split('\n')
        .filter((line) => line.startsWith('|') && line.length > 120)
        .map((line) => `${path}: ${line}`),
    )
    expect(tooWide).toEqual([])
  })

  test('has links to pages and headings that exist', () => {
    const dead = [...pages].flatMap(([path, text]) =>
      [...text.matchAll(/\]\((?!https?:)([^)#\s]*)(?:#([\w-]+))?\)/g)].flatMap(
        ([, to = '', anchor]) => {
          const target = to === '' ? path : join(dirname(path), to)
          const isThere = existsSync(join(root, target))
          const hasHeading = anchor === undefined || anchorsIn(page(target)).includes(anchor)
          return isThere && hasHeading ? [] : [`${path}: ${to}#${anchor}`]
        },
      ),
    )
    expect(dead).toEqual([])
  })

  test('names limits with their values', () => {
    const limits: Record<string, number> = Object.assign(
      { ...LIMITS },
      ...[...DEFINITIONS.values()].map((one) => one.limits ?? {}),
    )
    const ofApi: Record<string, number> = { ...limits, ...API_BOUNDS }
    const own: Record<string, Record<string, number>> = {
      'src/platform/alerts/README.md': ALERT_BOUNDS,
      'src/platform/heartbeats/README.md': PING_BOUNDS,
    }
    const limitRows = [...pages].flatMap(([path, text]) =>
      tablesIn(text)
        .filter(({ head }) => head.join() === 'limit,value,name')
        .flatMap(({ rows }) => rows.map(([, value, name = '']) => ({ path, value, name }))),
    )
    expect(limitRows.length).toBeGreaterThan(20)
    const wrong = limitRows.filter(({ path, value, name: cell }) => {
      const name = cell.replaceAll('`', '')
      const known = own[path] ?? (path.startsWith('src/platform/') ? ofApi : limits)
      return value !== limitText(name, known[name])
    })
    expect(wrong).toEqual([])
  })
})

/** A limit as pages write it, by the unit in its name. */
function limitText(name: string, value: number | undefined): string {
  if (value === undefined) return `${name} does not exist`
  if (name.includes('Bytes')) return bytesText(value)
  return /Ms(Max)?$/.test(name) ? durationText(value) : value.toLocaleString('en')
}

test('the README runs the image as the page about containers does', () => {
  const [command = ''] = /^docker run -d (?:[^\n]*\\\n)*[^\n]*$/m.exec(page('README.md')) ?? []
  expect(command).not.toBe('')
  expect(page('docker/README.md')).toContain(command)
})

test('measured figures are those of the page of figures, or of the sizing of containers', () => {
  const figures = [page('test/bench/README.md'), chapter(page('docker/README.md'), 'Sizing')].join()
  const isMeasured = (text: string) =>
    /`npm run bench \S+`|\]\([./]*test\/bench\/README\.md\)/.test(text)
  const said = [...pages].flatMap(([path, text]) =>
    text
      .split(/\n\n|\n- |(?<=[.:]\**)\s(?=[*(]*\p{Lu})/u)
      .filter(isMeasured)
      .flatMap((one) => one.match(/(?<![\w.])\d[\d,.]*(?:\s(?:times|MiB|m?s|cores)\b)?/g) ?? [])
      .map((figure) => ({ path, figure: figure.replace(/\s+/, ' ').replace('times', '×') })),
  )
  expect(said.length).toBeGreaterThan(12)
  const isKnown = (figure: string) => new RegExp(`(?<![\\d,.])${figure}(?!\\d)`).test(figures)
  expect(said.filter(({ figure }) => !isKnown(figure))).toEqual([])
})

const codesOf = (table: FailureTable) =>
  Object.entries(table).map(([code, { about, meaning }]) => `${code} (${about}): ${meaning}.`)

/** Failure codes that a page explains, each with its meaning and what to do, by code. */
const codesOn = (text: string) =>
  [...text.matchAll(/^- `([A-Z0-9_]+)` (\((?:target|agent)\): [^]*?)(?=\n- |\n\n|\n$)/gm)].map(
    ([, code, rest = '']) => `${code} ${rest.replaceAll(/\s+/g, ' ')}`,
  )

/** Codes whose text on the page does not begin with the code's meaning, or says nothing of what to do. */
function codeProblems(table: FailureTable, text: string): string[] {
  const [expected, shown] = [codesOf(table), codesOn(text)]
  return [
    ...expected.filter((one) => !shown.some((other) => other.startsWith(`${one} `))),
    ...shown.filter((one) => !expected.some((other) => one.startsWith(`${other} `))),
  ]
}

const HEADINGS = [
  'Minimal example',
  'Full example',
  'Fields',
  'Result',
  'Failure codes',
  'Metrics',
  'Limits',
  'How it is measured',
]

describe.each([...DEFINITIONS.values()])('the page of $checkType monitors', (definition) => {
  const { checkType, failures, metrics, schema, sources = {} } = definition
  const path = pageOf(checkType)
  const text = page(path)
  const around = withLinkedPages(path)

  test('has the same headings as the others, in the same order', () => {
    const headings = [...text.matchAll(/^## (.*)$/gm)].map(([, heading]) => heading)
    expect(headings.slice(0, HEADINGS.length)).toEqual(HEADINGS)
  })

  test('has every field of the schema, and no other', () => {
    const own = Object.entries(schema.shape).filter(
      ([name]) => name !== 'checkType' && !Object.hasOwn(commonFields, name),
    )
    const tables = tablesIn(chapter(text, 'Fields') ?? '')
    expect(fieldProblems(Object.fromEntries(own), tables, around)).toEqual([])
  })

  test('names the sources of assertions', () => {
    expect(Object.keys(sources).filter((source) => !text.includes(`\`${source}\``))).toEqual([])
  })

  test('has the failure codes of the type, with their meaning and what to do', () => {
    expect(codeProblems(failures ?? {}, text)).toEqual([])
  })

  test('has each metric, or links to the page that has it', () => {
    const shown = firstCells('metric', text)
    const known = firstCells('metric', around)
    expect(shown.filter((name) => !Object.hasOwn(metrics, name))).toEqual([])
    expect(Object.keys(metrics).filter((name) => !known.includes(name))).toEqual([])
  })
})

describe('the pages of what types share', () => {
  const monitors = page('src/monitors/README.md')
  const contract = page('src/contract/README.md')

  test('have the fields of every monitor', () => {
    const around = withLinkedPages('src/monitors/README.md')
    const tables = tablesIn(monitors)
    const { checkType } = DEFINITIONS.get('URL')?.schema.shape ?? {}
    // A file makes the id from the name.
    const fields = {
      ...commonFields,
      id: commonFields.id.optional(),
      checkType: checkType as never,
    }
    expect(fieldProblems(fields, tables, around)).toEqual([])
    const ofTls = fieldProblems(
      { tls: TlsSettings },
      tablesIn(chapter(monitors, 'TLS settings') ?? ''),
      around,
    )
    expect(ofTls).toEqual([])
  })

  test('have every type, verdict and reason', () => {
    expect(firstCells('type', monitors)).toEqual(expect.arrayContaining([...DEFINED_TYPES]))
    expect(firstCells('verdict', contract)).toEqual([...VERDICTS])
    expect(firstCells('reason of `missed`', contract)).toEqual([...MISSED_REASONS])
  })

  test('have the shared failure codes, with their meaning and what to do', () => {
    expect(codeProblems(FAILURES, contract)).toEqual([])
  })
})

test('metrics of agent and platform that a page names exist', () => {
  const sources = globSync('src/**/*.ts', { cwd: root }).map((file) =>
    readFileSync(join(root, file), 'utf8'),
  )
  // Some names are written without the prefix.
  const known = new Set(sources.join('\n').match(/\b(?:vedette_)?[a-z]+_[a-z_]+/g))
  const named = [...pages].flatMap(([path, text]) =>
    (text.match(/\bvedette_[a-z_]+/g) ?? []).map((name) => ({ path, name })),
  )
  expect(named.length).toBeGreaterThan(20)
  const isKnown = (name: string) => known.has(name) || known.has(name.replace('vedette_', ''))
  expect(named.filter(({ name }) => !isKnown(name))).toEqual([])
})

test('commands that a page names exist, with their options', () => {
  const lines = [...pages].flatMap(([path, text]) =>
    [...text.matchAll(/^(?:[A-Z_]+=\S+ )*(?:npx )?vedette [^\n#]*|`(?:npx )?vedette [^`]*`/gm)].map(
      ([line]) => ({ path, line: line.replaceAll('`', '').replaceAll(/\s+/g, ' ') }),
    ),
  )
  expect(lines.length).toBeGreaterThan(40)
  const unknown = lines.filter(({ line }) => {
    const [, name = ''] = /(?:^| )vedette (\S+)/.exec(line) ?? []
    if (name === 'help' || /^[-<…]/.test(name)) return false
    const command = COMMANDS.find((one) => one.name === name)
    const options = [...line.matchAll(/ --([a-z-]+)/g)].map(([, option = '']) => option)
    const known = new Set(['help', ...Object.keys(command?.options ?? {})])
    return command === undefined || options.some((option) => !known.has(option))
  })
  expect(unknown).toEqual([])
})

describe('the page of the command line', () => {
  const text = page('src/cli/README.md')

  test('has every command', () => {
    const shown = [...text.matchAll(/^\| .*?`vedette ([a-z]+)[^|]*/gm)].flatMap(([row]) =>
      [...row.matchAll(/`vedette ([a-z]+)/g)].map(([, name]) => name),
    )
    expect(new Set(shown)).toEqual(new Set(COMMANDS.map(({ name }) => name)))
  })

  test('has the exit codes that the help of each command names', () => {
    const rows = tableUnder('## Exit codes', text)
    const problems = COMMANDS.flatMap(({ name, description }) => {
      const said = /Exit code ([^]*)/.exec(description)?.[1]
      const row = rows.find(([commands = '']) => commands.includes(`\`${name}\``))
      if (row === undefined) return [`${name} has no row`]
      const codes = (said?.match(/\b\d+(?=: )/g) ?? []).filter(
        (code) => code !== '0' && code !== '1',
      )
      const [, , one = '', other = ''] = row
      const missing = codes.filter((code) => !new RegExp(`\\b${code}\\b`).test(other))
      const hasOne = said?.includes('1: ') !== true || one !== ''
      return [...missing.map((code) => `${name}: ${code}`), ...(hasOne ? [] : [`${name}: 1`])]
    })
    expect(problems).toEqual([])
  })

  test('has the exit codes of the program, and no other', () => {
    const rows = tableUnder('## Exit codes', text)
    const other = rows.flatMap((row) => row[3]?.match(/\d+/g) ?? []).map(Number)
    const { SIGINT, SIGTERM } = constants.signals
    const ofSignals = [SIGINT, SIGTERM].map((signal) => 128 + signal)
    expect(new Set([0, 1, ...other])).toEqual(new Set([...Object.values(EXIT), ...ofSignals]))
  })
})

test('the variables and their defaults are those of the code', () => {
  const table = tableUnder('## Configuration', page('src/agent/README.md'))
  const rows = table.map(([name, fallback]) => [name, fallback])
  const expected = VARIABLES.map(({ name, default: fallback }) => [`\`${name}\``, fallback])
  expect(rows).toEqual(expected)
})

test('so are those of the platform', () => {
  const table = tableUnder('## Configuration of the platform', page('src/platform/README.md'))
  const rows = table.map(([name, fallback]) => [name, fallback])
  const expected = PLATFORM_VARIABLES.map(({ name, default: unset }) => [`\`${name}\``, unset])
  expect(rows).toEqual(expected)
})

test('it says where a runtime has another Node.js on ARM64', () => {
  const plain = [...pages.values()].join('\n').replaceAll(/\s+/g, ' ')
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
  const table = tableUnder('What one run may use', page('src/sandbox/README.md'))
  expect(table.map((row) => row.slice(1))).toEqual([
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
