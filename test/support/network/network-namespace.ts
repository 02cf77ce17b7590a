// Networks of their own for processes of a test, joined to this one by a cable that can be pulled.
import { execFileSync } from 'node:child_process'
import { randomBytes } from 'node:crypto'

/** A network namespace with one cable to ours. */
export interface NetworkNamespace {
  /** Put before a command line, it runs the command in there. */
  readonly prefix: readonly string[]
  /** Our address, as seen from in there. */
  readonly outside: string
  /** Its address, as seen from here. */
  readonly inside: string
  /** Pulls the cable: packets vanish without a word. */
  cut(): void
  /** Plugs it in again. */
  heal(): void
  remove(): void
}

let made = 0

/** Makes a namespace; needs root and iproute2. */
export function createNetworkNamespace(): NetworkNamespace {
  const tag = `${randomBytes(3).toString('hex')}${made++}`
  const [name, ours, theirs] = [`vedette-${tag}`, `vo${tag}`, `vi${tag}`]
  // One /30 of 198.18.0.0/15, which is set aside for tests of networks (RFC 2544).
  const block = 4 * (randomBytes(2).readUInt16BE() & 0x3fff)
  const at = (n: number) => `198.18.${(block + n) >> 8}.${(block + n) & 255}`
  const [outside, inside] = [at(1), at(2)]
  const ip = (...args: string[]) =>
    execFileSync('ip', args, { stdio: ['ignore', 'ignore', 'pipe'] })
  ip('netns', 'add', name)
  ip('link', 'add', ours, 'type', 'veth', 'peer', 'name', theirs, 'netns', name)
  ip('address', 'add', `${outside}/30`, 'dev', ours)
  ip('link', 'set', ours, 'up')
  ip('-n', name, 'address', 'add', `${inside}/30`, 'dev', theirs)
  ip('-n', name, 'link', 'set', theirs, 'up')
  ip('-n', name, 'link', 'set', 'lo', 'up')
  return {
    prefix: ['ip', 'netns', 'exec', name],
    outside,
    inside,
    cut: () => ip('link', 'set', ours, 'down'),
    heal: () => ip('link', 'set', ours, 'up'),
    remove() {
      ip('netns', 'delete', name)
    },
  }
}
