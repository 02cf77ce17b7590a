// Which agent runs which monitor: rendezvous hashing over those that can run it. Every process computes
// the same owner without communication, and when an agent leaves only its monitors move.
import { MANIFESTS } from '../../contract/versions.ts'

const RUNTIME_PREFIX = 'runtime:'

/** An agent as assignment sees it. */
export interface Member {
  id: string
  /** Abilities, in the format of needs. */
  abilities: readonly string[]
}

/** Whether an agent with `abilities` can run a monitor with these needs. */
export function capable(needs: readonly string[], abilities: readonly string[]): boolean {
  return needs.every((need) => abilities.includes(need))
}

interface Seed {
  high: number
  low: number
}

/** 64 bits of an id, mixed, so that ids that differ little lie far apart. */
function seedOf(id: string): Seed {
  let high = 0x9e3779b9
  let low = 0x85ebca6b
  for (let at = 0; at < id.length; at++) {
    const code = id.charCodeAt(at)
    high = Math.imul(high ^ code, 0x01000193)
    low = Math.imul(low + code, 0xcc9e2d51)
    low ^= low >>> 15
  }
  return { high, low }
}

/** The finalizer of MurmurHash3: each input bit affects half of the output bits. */
function mixed(value: number): number {
  let bits = value ^ (value >>> 16)
  bits = Math.imul(bits, 0x85ebca6b)
  bits ^= bits >>> 13
  bits = Math.imul(bits, 0xc2b2ae35)
  return bits ^ (bits >>> 16)
}

/** Weight of a member for a monitor; 53 bits, so that two members hardly ever weigh the same. */
function weightOf(monitor: Seed, member: Seed): number {
  const high = mixed(monitor.high ^ member.high) >>> 11
  const low = mixed((monitor.low ^ member.low) + high) >>> 0
  return high * 0x1_0000_0000 + low
}

interface SeededMember<M extends Member> {
  member: M
  seed: Seed
}

function highest<M extends Member>(
  monitorId: string,
  members: readonly SeededMember<M>[],
): M | undefined {
  if (members.length < 2) return members[0]?.member
  const monitor = seedOf(monitorId)
  let best: M | undefined
  let most = -1
  for (const { member, seed } of members) {
    const weight = weightOf(monitor, seed)
    if (weight > most || (weight === most && best !== undefined && member.id < best.id)) {
      best = member
      most = weight
    }
  }
  return best
}

/** Who runs what among the members of one epoch; looks at who is capable once for each kind of needs. */
export interface Assignment<M extends Member> {
  /** The owner; undefined when no member is capable. */
  owner(monitorId: string, needs: readonly string[]): M | undefined
}

/** Makes the assignment of an epoch. */
export function createAssignment<M extends Member>(members: readonly M[]): Assignment<M> {
  const all = members.map((member) => ({ member, seed: seedOf(member.id) }))
  const capableByNeeds = new Map<string, SeededMember<M>[]>()
  return {
    owner(monitorId, needs) {
      const needsKey = needs.join('\n')
      let able = capableByNeeds.get(needsKey)
      if (able === undefined) {
        able = all.filter(({ member }) => capable(needs, member.abilities))
        capableByNeeds.set(needsKey, able)
      }
      return highest(monitorId, able)
    },
  }
}

/**
 * Text of the needs of a monitor for messages: `DNS: agent 7.0.0 or newer`. The version is that of the first
 * milestone that has all of them; runtimes of earlier ones can still be installed. Engines and runtimes must
 * exist when an agent starts; for a runtime that images no longer contain, the text says how to migrate.
 */
export function neededText(needs: readonly string[]): string {
  const [type = 'this monitor', ...more] = needs
  const extras = more.map((need) => need.replace(/^(?:engine|runtime):/, '')).join(', ')
  const what = extras === '' ? type : `${type} with ${extras}`
  const first = MANIFESTS.find(({ checkTypes, engines }, at) => {
    const runtimes = MANIFESTS.slice(0, at + 1).flatMap((one) => one.runtimes)
    return capable(needs, abilityNames({ checkTypes, engines, runtimes }))
  })
  if (first === undefined) return `${what}: no agent version can run it`
  // Those of the newest version: an image that came later may have less than its version.
  const images = Object.entries(MANIFESTS.at(-1)?.images ?? first.images)
  const fitting = images.filter(([, types]) => types.includes(type)).map(([name]) => name)
  const some = fitting.length < images.length ? ` (image ${fitting.join(' or ')})` : ''
  const commands = more.map((need) => `\`vedette ${need.replace(':', ' install ')}\``)
  const where =
    commands.length === 0
      ? ''
      : `, on a machine where ${commands.join(' and ')} was run before it started`
  return `${what}: agent ${first.version} or newer${some}${where}${upgradeHint(needs)}`
}

/** How to migrate from a runtime that the newest images do not contain; else empty. */
function upgradeHint(needs: readonly string[]): string {
  const current = MANIFESTS.at(-1)?.runtimes ?? []
  const former = needs
    .filter((need) => need.startsWith(RUNTIME_PREFIX))
    .map((need) => need.slice(RUNTIME_PREFIX.length))
    .find((runtime) => !current.includes(runtime))
  const next = current[0]
  if (former === undefined || next === undefined) return ''
  return `; or move to ${next} with \`vedette migrate --from ${former} --to ${next}\``
}

/** Abilities in the format of needs. */
export function abilityNames(can: {
  checkTypes: readonly string[]
  engines: readonly string[]
  runtimes: readonly string[]
}): string[] {
  return [
    ...can.checkTypes,
    ...can.engines.map((engine) => `engine:${engine}`),
    ...can.runtimes.map((runtime) => `${RUNTIME_PREFIX}${runtime}`),
  ]
}
