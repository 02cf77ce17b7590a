// The probe endpoints report the state, with the reason, in every phase of the agent.
import { expect, test } from 'vitest'
import {
  createHealth,
  sandboxFacts,
  TICK_AGE_MS_MAX,
  type HealthSources,
} from '../../src/agent/health.ts'

function app(changes: Partial<HealthSources> = {}) {
  return createHealth({
    phase: () => 'running',
    hasMonitors: () => true,
    refused: () => undefined,
    unready: () => undefined,
    warnings: () => [],
    tickAgeMs: () => 10,
    facts: () => ({ version: '1.2.3' }),
    async *metrics() {
      yield 'a 1\n'
      yield 'b 2\n'
    },
    ...changes,
  })
}

async function ask(path: string, changes: Partial<HealthSources> = {}) {
  const response = await app(changes).request(path)
  return { status: response.status, body: (await response.json()) as Record<string, unknown> }
}

const REFUSED = { refused: () => 'line 3: odd' }
const NONE = { hasMonitors: () => false }
const WARNED = ['new monitors were refused: line 3: odd']

test.each<[string, Partial<HealthSources>, number, string[], string[]]>([
  ['monitors run', {}, 200, [], []],
  ['new monitors were refused and those before run on', REFUSED, 200, [], WARNED],
  ['there are no monitors yet', NONE, 503, ['there are no monitors yet'], []],
  ['the first are unusable', { ...NONE, ...REFUSED }, 503, ['no monitors: line 3: odd'], WARNED],
  ['it drains', { phase: () => 'draining' }, 503, ['the agent is stopping'], []],
  ['it hangs', { tickAgeMs: () => 31_000 }, 503, ['the timetable has not run for 31 s'], []],
])('readiness where %s', async (_, changes, expected, reasons, warnings) => {
  const { status, body } = await ask('/-/readiness', changes)
  expect([status, body]).toMatchObject([expected, { reasons, warnings }])
})

test.each([
  [TICK_AGE_MS_MAX, 200],
  [TICK_AGE_MS_MAX + 1, 503],
])('liveness %i ms after the timetable looked is %i', async (ageMs, status) => {
  const phase = () => 'draining' as const
  expect((await ask('/-/liveness', { phase, tickAgeMs: () => ageMs })).status).toBe(status)
})

test('health always answers, with the facts', async () => {
  const answer = await ask('/health', { phase: () => 'draining', ...NONE })
  expect(answer).toEqual({ status: 200, body: { status: 'draining', version: '1.2.3' } })
})

test('metrics come as Prometheus text, piece by piece', async () => {
  const response = await app().request('/metrics')
  expect(response.headers.get('content-type')).toBe('text/plain; version=0.0.4; charset=utf-8')
  expect(await response.text()).toBe('a 1\nb 2\n')
})

test('another method is 405', async () => {
  const answer = await app().request('/-/liveness', { method: 'POST' })
  expect([answer.status, answer.headers.get('allow')]).toEqual([405, 'GET, HEAD'])
})

test('an unknown path is 404 and names those that exist', async () => {
  const { status, body } = await ask('/nope')
  expect(status).toBe(404)
  expect(body['paths']).toContain('/-/readiness')
})

test('the layers of the sandbox have their earlier name, too', () => {
  const layers = { landlock: 7 }
  expect(sandboxFacts(layers)).toEqual({ sandbox: layers, cage: layers })
})
