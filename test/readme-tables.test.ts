// Aim: cells of tables that are no fields say what the code does: sources of assertions, rules with their defaults,
// values of metrics, states, verdicts, exit codes, denied networks, variables of runs.
import { describe, expect, test } from 'vitest'
import { TICK_AGE_MS_MAX } from '../src/agent/health.ts'
import { createMonitorMetrics } from '../src/agent/monitor-metrics.ts'
import { VARIABLES } from '../src/agent/config.ts'
import { COMMANDS } from '../src/cli/commands.ts'
import type { PropertiesRule, SourceRule, SourceRules } from '../src/contract/assertion.ts'
import { durationText } from '../src/contract/schema/amounts.ts'
import { isAboutTarget, VERDICTS, type Verdict } from '../src/contract/result.ts'
import { DEFINITIONS, FAILURES, METRICS } from '../src/monitors/definitions.ts'
import { Heartbeat } from '../src/monitors/heartbeat/definition.ts'
import { GRPC_HEALTH_STATES } from '../src/monitors/grpc/definition.ts'
import { SecurityBaseline } from '../src/monitors/ssl/definition.ts'
import { createNetworkPolicy } from '../src/network/network-policy.ts'
import { VARIABLES as PLATFORM_VARIABLES } from '../src/platform/config.ts'
import {
  expireDeadline,
  HEARTBEAT_EVENT_STATES,
  receivePing,
  reschedule,
} from '../src/platform/heartbeats/heartbeat.ts'
import { USERS_MAX } from '../src/sandbox/users.ts'
import { scriptEnvironment } from '../src/scripts/context.ts'
import { page, pageOf, pages, tablesIn } from './support/pages.ts'
import { aResult } from './support/results.ts'

/** Rows of all tables of a text whose head begins so. */
const rowsOf = (text: string, ...head: string[]) =>
  tablesIn(text)
    .filter((table) => head.every((name, index) => table.head[index] === name))
    .flatMap(({ rows }) => rows)
const codeIn = (cell = '') => [...cell.matchAll(/`([^`]+)`/g)].map(([, code = '']) => code)
const numbersIn = (text: string): string[] => text.match(/\d+/g) ?? []
const plain = (cell = '') => cell.replaceAll('`', '')

describe('sources of assertions', () => {
  const PROPERTIES: Record<SourceRule['property'], string> = {
    none: '',
    'json-path': 'JSONPath',
    regex: 'regular expression',
    header: 'name',
    metadata: 'name',
  }
  const isOfSeveral = (rule: SourceRule | PropertiesRule) => 'properties' in rule
  /** Source and property → what a value of it can be. */
  const rulesOf = (sources: SourceRules) =>
    Object.entries(sources).flatMap(([source, rule]) =>
      isOfSeveral(rule)
        ? Object.entries(rule.properties).map(([name, one]) => ({
            of: `${source} ${name}`,
            ...one,
          }))
        : [{ of: `${source} ${PROPERTIES[rule.property]}`, ...rule }],
    )
  const types = [...DEFINITIONS.values()].filter(({ sources = {} }) => rulesOf(sources).length > 1)

  test.each(types)('of $checkType have their properties and values', ({ checkType, sources }) => {
    const shown = rowsOf(page(pageOf(checkType)), 'source', 'property').flatMap(
      ([source, property = '', about = '']) => {
        const names = codeIn(property)
        return (names.length > 0 ? names : [property]).map((name) => ({
          of: `${plain(source)} ${name}`,
          about,
        }))
      },
    )
    const rules = rulesOf(sources ?? {})
    expect(shown.map(({ of }) => of).toSorted()).toEqual(rules.map(({ of }) => of).toSorted())
    const unnamed = rules.filter(({ of, range, targets }) => {
      const ends = range ?? (targets && [targets[0], targets.at(-1)]) ?? []
      const { about = '' } = shown.find((one) => one.of === of) ?? {}
      return !ends.every((end) => new RegExp(`(?<!\\w)${end}(?!\\w)`).test(about))
    })
    expect(unnamed.map(({ of }) => of)).toEqual([])
  })

  test('states of gRPC health have their numbers', () => {
    const rows = rowsOf(page(pageOf('GRPC')), 'source')
    const [, , about] = rows.find(([source]) => source === '`GRPC_HEALTHCHECK_STATUS`') ?? []
    expect(about).toBe(
      GRPC_HEALTH_STATES.map((state, number) => `${number} \`${state}\``).join(', '),
    )
  })
})

test('rules of the security baseline have their defaults', () => {
  const { enabled: _, ...rules } = SecurityBaseline.parse({})
  const shown = rowsOf(page(pageOf('SSL')), 'rule', 'value', 'severity')
  expect(shown.map(([name, value, severity]) => [plain(name), value, severity])).toEqual(
    Object.entries(rules).map(([name, rule]) => [
      name,
      'value' in rule ? String(rule.value) : '',
      rule.severity,
    ]),
  )
})

describe('metrics', () => {
  test('have the values that their help names', () => {
    const shown = [...pages.values()]
      .flatMap((text) => rowsOf(text, 'metric', 'meaning'))
      .map(([name = '', meaning = '']) => ({ name: plain(name), meaning }))
    expect(shown.length).toBeGreaterThan(60)
    const wrong = shown.filter(({ name, meaning }) => {
      const help = METRICS.get(name)
      if (help === undefined) return false
      const expected = help.startsWith('Whether') ? ['1'] : numbersIn(help)
      const [list = ''] = /\d+ \w+(?:, \d+ \w+)+/.exec(help) ?? []
      return numbersIn(meaning).join() !== expected.join() || !meaning.includes(list)
    })
    expect(wrong).toEqual([])
  })

  test('probe_success has its value for each verdict', async () => {
    const valueOf = async (verdict: Verdict) => {
      const metrics = createMonitorMetrics(new Map())
      metrics.record(aResult({ verdict }), [])
      let text = ''
      for await (const piece of metrics.text()) text += piece
      return /^probe_success\{.*\} (.*)$/m.exec(text)?.[1] ?? 'absent'
    }
    const verdicts = ['passed', 'degraded', 'failed', 'errored'] as const
    const values = new Map<string, Verdict[]>()
    for (const verdict of verdicts) {
      const value = await valueOf(verdict)
      values.set(value, [...(values.get(value) ?? []), verdict])
    }
    const expected = [...values].map(([value, those]) => `${value} for ${those.join(' and ')}`)
    const rows = rowsOf(page('src/monitors/README.md'), 'metric')
    const [, meaning] = rows.find(([name]) => name === '`probe_success`') ?? []
    expect(meaning).toBe(expected.join(', '))
  })
})

test('states of heartbeats have their verdicts', () => {
  let state = reschedule(undefined, { periodMs: 1000, graceMs: 500, isActive: true }, 0)
  const verdicts = new Map<string, string>()
  const step = ({ state: after, events }: ReturnType<typeof expireDeadline>) => {
    state = after
    for (const { state: name, failure } of events) {
      verdicts.set(name, failure === undefined ? 'passed' : 'failed')
    }
  }
  // The first ping, one too early, one within the grace, a deadline that passes, and a late ping.
  for (const atMs of [10, 20, 1220]) step(receivePing(state, { exitCode: 0 }, atMs))
  step(expireDeadline(state, 9000))
  step(receivePing(state, { exitCode: 0 }, 9001))
  const shown = rowsOf(page(pageOf('HEARTBEAT')), '`observed.state`')
  expect(shown.map(([name, verdict]) => [plain(name), verdict])).toEqual(
    HEARTBEAT_EVENT_STATES.map((name) => [name, verdicts.get(name)]),
  )
})

test('times of heartbeats have the bounds of their schema', () => {
  const rows = rowsOf(page(pageOf('HEARTBEAT')), 'field of `heartbeat`')
  const tooMuch = { period: 1e9, periodUnit: 'days', grace: 1e9, graceUnit: 'days' }
  const issues = Heartbeat.safeParse(tooMuch).error?.issues ?? []
  expect(issues.map(({ path }) => path.join())).toEqual(['period', 'grace'])
  for (const { path, message } of issues) {
    const [, , , meaning] = rows.find(([name]) => plain(name) === path.join()) ?? []
    for (const [time] of message.matchAll(/\d+ \w+/g)) expect(meaning).toContain(` ${time}`)
  }
})

test('verdicts are about the target or the agent', () => {
  const shown = rowsOf(page('src/contract/README.md'), 'verdict', 'about')
  expect(shown.map(([name, about]) => [plain(name), about])).toEqual(
    VERDICTS.map((verdict) => [verdict, isAboutTarget(verdict) ? 'target' : 'agent']),
  )
})

test('codes in tables are failure codes', () => {
  const shown = [...pages.values()].flatMap((text) =>
    tablesIn(text).flatMap(({ head, rows }) =>
      head.includes('code') ? rows.map((row) => plain(row[head.indexOf('code')])) : [],
    ),
  )
  expect(shown.length).toBeGreaterThan(1)
  expect(shown.filter((code) => !Object.hasOwn(FAILURES, code))).toEqual([])
})

describe('exit codes', () => {
  const tables = [...pages.values()].flatMap((text) =>
    tablesIn(text).flatMap(({ head, rows }) => {
      const [, name] = /^exit code of `vedette (\w+)`$/.exec(head[0] ?? '') ?? []
      return name === undefined ? [] : [{ name, rows }]
    }),
  )

  test.each(tables)('of vedette $name are those of its help', ({ name, rows }) => {
    const { description = '' } = COMMANDS.find((one) => one.name === name) ?? {}
    const [, said = ''] = /Exit code ([^]*)/.exec(description) ?? []
    const own: string[] = said.match(/\b\d+(?=: )/g) ?? []
    expect(own.length).toBeGreaterThan(1)
    const shown = rows.flatMap(([codes = '']) => codes.match(/\d+/g) ?? [])
    expect(own.filter((code) => !shown.includes(code))).toEqual([])
    const known = new Set([...own, '0', '1', '130', '143'])
    expect(shown.filter((code) => !known.has(code))).toEqual([])
  })

  test('of agent and platform are in tables', () => {
    expect(tables.map(({ name }) => name).toSorted()).toEqual(['agent', 'platform'])
  })
})

test('the liveness of the agent has its limit', () => {
  const rows = rowsOf(page('src/agent/README.md'), 'path on `AGENT_HEALTH_PORT`')
  const [, answer] = rows.find(([path]) => path === '`/-/liveness`') ?? []
  expect(answer).toContain(` ${durationText(TICK_AGE_MS_MAX)}`)
})

describe('variables', () => {
  test('have the figures of their help', () => {
    const helps = new Map(
      [...VARIABLES, ...PLATFORM_VARIABLES].map(({ name, meaning }) => [name, meaning]),
    )
    const shown = [...pages.values()].flatMap((text) => rowsOf(text, 'variable', 'default'))
    expect(shown.length).toBeGreaterThan(50)
    const wrong = shown.filter(([name, , meaning = '']) => {
      const known = numbersIn(helps.get(plain(name)) ?? '')
      return numbersIn(meaning).some((number) => !known.includes(number))
    })
    expect(wrong).toEqual([])
  })

  test('the help of SCRIPT_USER_ID has the number of users', () => {
    const { meaning = '' } = VARIABLES.find(({ name }) => name === 'SCRIPT_USER_ID') ?? {}
    expect(numbersIn(meaning)).toEqual([String(USERS_MAX)])
  })

  test('of a suite or a script have their values', () => {
    const monitor = { id: 'an id', name: 'a name', checkType: 'a type' }
    const given = (['SCHEDULER', 'TRIGGER_API', 'TEST_NO_RECORD'] as const).map((source) =>
      scriptEnvironment(monitor, { location: 'a location', accountId: 'an account', source }),
    )
    const rows = rowsOf(page(pageOf('PLAYWRIGHT')), 'variable', 'value')
    const names = Object.keys(Object.assign({}, ...given))
    const shown = new Set(rows.flatMap(([name]) => codeIn(name)))
    expect(names.filter((name) => !shown.has(name))).toEqual([])
    const wrong = rows.filter(([cell, value = '']) => {
      const values = given.flatMap((one) => codeIn(cell).flatMap((name) => one[name] ?? []))
      const codes = codeIn(value.split(' for ')[0])
      return values.length > 0 && codes.some((code) => !values.includes(code))
    })
    expect(wrong).toEqual([])
  })
})

describe('the network policy', () => {
  const rows = rowsOf(page('src/network/README.md'), 'networks', 'default')
  const cases = rows.flatMap(([networks = '', byDefault, changedBy = '']) =>
    (networks.match(/[\da-f]+[.:][\da-f.:]+(?:\/\d+)?/g) ?? []).map((network) => ({
      network,
      byDefault,
      changedBy: plain(changedBy),
    })),
  )

  test('each row has addresses', () => {
    expect(rows.filter(([networks = '']) => !/\d[.:]/.test(networks))).toEqual([])
  })

  test.each(cases)('$network is $byDefault by default', ({ network, byDefault, changedBy }) => {
    const [address = ''] = network.split('/')
    const verdict = (blocked: string[], allowed: string[]) =>
      createNetworkPolicy({ blocked, allowed }).denial(address) === undefined ? 'allowed' : 'denied'
    expect(verdict([], [])).toBe(byDefault)
    const changed =
      changedBy === 'ALLOWED_NETWORKS' ? verdict([], [network]) : verdict([network], [])
    expect(changed).not.toBe(byDefault)
  })
})
