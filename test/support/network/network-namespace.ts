// Separate networks for processes of a test, connected to this one by a link that can be cut.
import { execFileSync } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { temporaryFile } from '../temporary-folder.ts'

/** A network namespace with one link to ours. */
export interface NetworkNamespace {
  /** Prefix of a command line, to run it in the namespace. */
  readonly prefix: readonly string[]
  /** This machine's end of the link. */
  readonly hostAddress: string
  /** The namespace's end of the link. */
  readonly address: string
  /** Cuts the link: packets are lost without an error. */
  cut(): void
  /** Restores the link. */
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
  const [hostAddress, address] = [at(1), at(2)]
  const ip = (...args: string[]) =>
    execFileSync('ip', args, { stdio: ['ignore', 'ignore', 'pipe'] })
  ip('netns', 'add', name)
  ip('link', 'add', ours, 'type', 'veth', 'peer', 'name', theirs, 'netns', name)
  ip('address', 'add', `${hostAddress}/30`, 'dev', ours)
  ip('link', 'set', ours, 'up')
  ip('-n', name, 'address', 'add', `${address}/30`, 'dev', theirs)
  ip('-n', name, 'link', 'set', theirs, 'up')
  ip('-n', name, 'link', 'set', 'lo', 'up')
  return {
    prefix: ['ip', 'netns', 'exec', name],
    hostAddress,
    address,
    cut: () => ip('link', 'set', ours, 'down'),
    heal: () => ip('link', 'set', ours, 'up'),
    remove() {
      ip('netns', 'delete', name)
    },
  }
}

/** Prefix of a command line, to run it with this text as the system's resolv.conf; needs root. */
export function withResolvConf(text: string): string[] {
  const path = temporaryFile('resolv.conf', text)
  const bind = `mount --bind ${path} /etc/resolv.conf && exec "$@"`
  return ['unshare', '-m', 'sh', '-c', bind, 'sh']
}
