// Aim: monitors are distributed evenly and fast, every process computes the same owner, and only monitors that
// must move do.
import { randomUUID } from 'node:crypto'
import { describe, expect, test } from 'vitest'
import {
  capable,
  createAssignment,
  type Member,
  neededText,
} from '../../../src/platform/agents/assignment.ts'

const member = (abilities: string[] = ['TCP']): Member => ({ id: randomUUID(), abilities })
const members = (count: number) => Array.from({ length: count }, () => member())
const ids = (count: number) => Array.from({ length: count }, () => randomUUID())
/** Ids that differ only in their last digits. */
const neighbours = (count: number) =>
  Array.from(
    { length: count },
    (_, at) => `00000000-0000-4000-8000-${String(at).padStart(12, '0')}`,
  )

function shares(monitors: readonly string[], of: readonly Member[]): Map<string, number> {
  const counts = new Map(of.map(({ id }) => [id, 0]))
  const assignment = createAssignment(of)
  for (const id of monitors) {
    const own = assignment.owner(id, ['TCP'])?.id ?? ''
    counts.set(own, (counts.get(own) ?? 0) + 1)
  }
  return counts
}

describe('owner', () => {
  test.each([
    ['random ids', ids(10_000), members(5)],
    ['ids next to each other', neighbours(10_000), members(5)],
    [
      'agents next to each other too',
      neighbours(10_000),
      neighbours(5).map((id) => ({ id, abilities: ['TCP'] })),
    ],
  ])('%s are distributed within a few percent', (_sentence, monitors, all) => {
    for (const count of shares(monitors, all).values()) {
      // Five standard deviations of a fair draw.
      expect(Math.abs(count - 2000)).toBeLessThan(200)
    }
  })

  test('a leaving member moves only its own, to all others; a joining one gets some of all', () => {
    for (let turn = 0; turn < 20; turn++) {
      const all = members(2 + (turn % 6))
      const [gone, ...rest] = all
      const before = createAssignment(all)
      const after = createAssignment(rest)
      for (const id of ids(300)) {
        const [old, now] = [before.owner(id, ['TCP'])?.id, after.owner(id, ['TCP'])?.id]
        expect(now === old || old === gone?.id).toBe(true)
      }
    }
  })

  test('does not depend on the order of members', () => {
    const all = members(7)
    const turned = all.toReversed()
    const [one, other] = [createAssignment(all), createAssignment(turned)]
    for (const id of ids(500)) expect(one.owner(id, ['TCP'])).toBe(other.owner(id, ['TCP']))
  })

  test('only capable members', () => {
    const [dns, tcp] = [member(['DNS', 'TCP']), member(['TCP'])]
    const assignment = createAssignment([dns, tcp])
    for (const id of ids(50)) {
      expect(assignment.owner(id, ['DNS'])).toBe(dns)
      expect(assignment.owner(id, ['DNS', 'engine:node@24'])).toBeUndefined()
    }
    expect(createAssignment([]).owner(randomUUID(), ['TCP'])).toBeUndefined()
  })
})

test('capable means all of the needs', () => {
  const abilities = ['TCP', 'PLAYWRIGHT', 'engine:node@24']
  expect(capable(['TCP'], abilities)).toBe(true)
  expect(capable(['PLAYWRIGHT', 'engine:node@24'], abilities)).toBe(true)
  expect(capable(['PLAYWRIGHT', 'engine:bun@1.3'], abilities)).toBe(false)
  expect(capable([], [])).toBe(true)
})

test.each([
  [['DNS'], 'DNS: agent 7.0.0 or newer'],
  [['TCP'], 'TCP: agent 6.3.1 or newer'],
  [['GRPC'], 'GRPC: agent 8.4.0 or newer'],
  [
    ['BROWSER', 'runtime:2026.04'],
    'BROWSER with 2026.04: agent 7.0.0 or newer (image agent), on a machine where `vedette runtime install 2026.04` was run before it started',
  ],
  [
    ['MULTI_STEP', 'runtime:2024.09'],
    'MULTI_STEP with 2024.09: agent 6.3.1 or newer (image agent), on a machine where `vedette runtime install 2024.09` was run before it started; or move to 2026.04 with `vedette migrate --from 2024.09 --to 2026.04`',
  ],
  [
    ['PLAYWRIGHT', 'engine:node@24', 'runtime:2025.04'],
    'PLAYWRIGHT with node@24, 2025.04: agent 8.3.0 or newer (image agent), on a machine where `vedette engine install node@24` and `vedette runtime install 2025.04` was run before it started; or move to 2026.04 with `vedette migrate --from 2025.04 --to 2026.04`',
  ],
  [['HEARTBEAT'], 'HEARTBEAT: no agent version can run it'],
])('the needs %j have the text: %s', (needs, text) => {
  expect(neededText(needs)).toBe(text)
})
