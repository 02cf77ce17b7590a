// Connects for the run. The supervisor copies the address from the caller's memory once, checks that copy, and connects
// the caller's own socket to it: later changes of the caller's memory have no effect.
import { closeSync, openSync, readFileSync, readlinkSync, readSync } from 'node:fs'
import { sep } from 'node:path'
import type { BlockedConnection } from '../request.ts'
import {
  EACCES,
  EALREADY,
  ECONNREFUSED,
  EAFNOSUPPORT,
  EINPROGRESS,
  EINVAL,
  EISCONN,
  ENOENT,
  EPERM,
  errno,
  ESRCH,
  libcFunction,
  setStatusFlags,
  statusFlags,
} from '../../network/native/syscalls.ts'
import { ipv6Text, ipv6Words } from '../../network/ip-address.ts'
import type { NetworkPolicy } from '../../network/network-policy.ts'
import type { Answer, Listener, Question } from './listener.ts'
import type { NameRelay } from './names.ts'
import { asUser, withMemory } from './processes.ts'
import type { RunSockets } from './sockets.ts'

const connect = libcFunction('int connect(int, void *, uint32_t)')

const AF_UNSPEC = 0
const AF_UNIX = 1
const AF_INET = 2
const AF_INET6 = 10
const AF_NETLINK = 16
const ADDRESS_BYTES_MAX = 128 // struct sockaddr_storage
const O_NONBLOCK = 0o4000
const O_PATH = 0o10000000
const DNS_PORT = 53

/** Who connects, and what it may reach. */
export interface AnswerContext {
  listener: Listener
  sockets: RunSockets
  policy: NetworkPolicy
  /** Of the run's proxy on 127.0.0.1. */
  proxyPort: number | undefined
  /** Local sockets below this folder may be connected to. */
  folder: string
  /** Reach the memory and the sockets of the run as this user would, where the agent's own may not. */
  userId: number | undefined
  names: { servers: readonly string[]; relay: NameRelay }
  blocked(connection: BlockedConnection): void
}

/** Answers the call connect(socket, address, length). */
export function answerConnect(question: Question, context: AnswerContext): Answer | undefined {
  const length = Number(question.arguments[2]! & 0xffffffffn)
  if (length < 2 || length > ADDRESS_BYTES_MAX) return { error: EINVAL }
  const address = asUser(context.userId, () => memoryOf(question, length))
  if (address === undefined) return { error: EPERM }
  const forNames = isForNames(address, context)
  const refused = forNames ? undefined : evaluate(address, context)
  if (refused !== undefined) return refused
  const found = context.sockets.find(question)
  if ('error' in found) return found
  const { socket } = found
  if (!context.listener.isValid(question.id)) return refuseSocket(socket, ESRCH, context)
  if (address.readUInt16LE(0) === AF_UNIX) return connectLocal(socket, address, question, context)
  if (forNames) {
    void connectRelay(socket, address.readUInt16LE(0), question, context)
    return undefined
  }
  return connectSocket(socket, address, question, context)
}

/** Why the address is refused, or undefined. */
function evaluate(address: Buffer, context: AnswerContext): Answer | undefined {
  const family = address.readUInt16LE(0)
  if (family === AF_UNSPEC || family === AF_UNIX || family === AF_NETLINK) return undefined
  const text = literal(family, address)
  if (text === undefined) {
    return { error: family === AF_INET || family === AF_INET6 ? EINVAL : EAFNOSUPPORT }
  }
  const port = address.readUInt16BE(2)
  if (text === '127.0.0.1' && port === context.proxyPort) return undefined
  const denial = context.policy.denial(text)
  if (denial === undefined) return undefined
  const name = context.names.relay.nameOf(text)
  const named = name === undefined ? {} : { name }
  context.blocked({ address: text, port, network: denial.network, ...named })
  return { error: EACCES }
}

function literal(family: number, address: Buffer): string | undefined {
  if (family === AF_INET && address.length >= 16) return address.subarray(4, 8).join('.')
  if (family !== AF_INET6 || address.length < 24) return undefined
  return ipv6Text(address, 8)
}

/** The system's name servers, which may stand where monitors must not go, as in Google's cloud. */
export function nameServers(): string[] {
  try {
    const text = readFileSync('/etc/resolv.conf', 'utf8')
    const found = [...text.matchAll(/^\s*nameserver\s+(\S+)/gm)].map((match) => match[1] as string)
    return found.length === 0 ? ['127.0.0.1'] : found
  } catch {
    return ['127.0.0.1']
  }
}

/** Whether it is a question for a name, which goes to the relay wherever the name server stands. */
function isForNames(address: Buffer, { names }: AnswerContext): boolean {
  const family = address.readUInt16LE(0)
  const text = literal(family, address)
  if (text === undefined || address.readUInt16BE(2) !== DNS_PORT) return false
  return names.servers.some((server) => sameAddress(server, text))
}

function sameAddress(a: string, b: string): boolean {
  if (a === b) return true
  const [left, right] = [ipv6Words(a), ipv6Words(b)]
  return left !== undefined && right !== undefined && left.every((part, at) => part === right[at])
}

/** Connects to the relay on the loopback address of the same family. */
async function connectRelay(
  socket: number,
  family: number,
  question: Question,
  context: AnswerContext,
): Promise<void> {
  const { names, listener } = context
  const isV6 = family === AF_INET6
  const target = Buffer.alloc(isV6 ? 28 : 16)
  target.writeUInt16LE(family, 0)
  if (isV6) target[23] = 1
  else target.set([127, 0, 0, 1], 4)
  try {
    target.writeUInt16BE(await names.relay.port(isV6 ? '::1' : '127.0.0.1'), 2)
  } catch {
    listener.answer(question.id, refuseSocket(socket, ECONNREFUSED, context))
    return
  }
  const answer = connectSocket(socket, target, question, context)
  if (answer !== undefined) listener.answer(question.id, answer)
}

function connectSocket(
  socket: number,
  address: Buffer,
  { id }: Question,
  { listener, sockets }: AnswerContext,
): Answer | undefined {
  const flags = statusFlags(socket)
  const waits = (flags & O_NONBLOCK) === 0
  // The caller may wait, the supervisor may not: others ask, too.
  if (waits) setStatusFlags(socket, flags | O_NONBLOCK)
  const failed = Number(connect(socket, address, address.length)) === 0 ? 0 : errno()
  if (!waits || failed !== EINPROGRESS) {
    if (waits) setStatusFlags(socket, flags)
    const isUnderWay = failed === EINPROGRESS || failed === EALREADY
    sockets.release(socket, isUnderWay ? 'under way' : failed === 0 ? 'connected' : 'failed')
    return failed === 0 ? { value: 0 } : { error: failed }
  }
  listener.watch({
    fd: socket,
    ready() {
      // Asked once more, the kernel says how it went, and the socket may try again.
      const again = Number(connect(socket, address, address.length)) === 0 ? 0 : errno()
      const error = again === EISCONN ? 0 : again
      setStatusFlags(socket, flags)
      sockets.release(socket, error === 0 ? 'connected' : 'failed')
      listener.answer(id, error === 0 ? { value: 0 } : { error })
    },
  })
  return undefined
}

/** Connects to a local socket by its path, when it lies in the run's folder after all links. */
function connectLocal(
  socket: number,
  address: Buffer,
  question: Question,
  context: AnswerContext,
): Answer | undefined {
  const end = address.indexOf(0, 2)
  const path = address.subarray(2, end < 0 ? address.length : end).toString()
  let file: number | undefined
  try {
    // Names without a file, and paths relative to the caller's folder, are not followed.
    if (!path.startsWith(sep)) return refuseSocket(socket, EACCES, context)
    file = openSync(path, O_PATH)
    // From here on the opened file counts, whatever its name leads to.
    const opened = `/proc/self/fd/${file}`
    const isOwn = readlinkSync(opened).startsWith(context.folder + sep)
    if (!isOwn) return refuseSocket(socket, EACCES, context)
    const target = Buffer.concat([address.subarray(0, 2), Buffer.from(`${opened}\0`)])
    return connectSocket(socket, target, question, context)
  } catch (error) {
    const isMissing = (error as NodeJS.ErrnoException).code === 'ENOENT'
    return refuseSocket(socket, isMissing ? ENOENT : EACCES, context)
  } finally {
    if (file !== undefined) closeSync(file)
  }
}

function refuseSocket(socket: number, error: number, { sockets }: AnswerContext): Answer {
  sockets.release(socket, 'failed')
  return { error }
}

function memoryOf({ thread, arguments: given }: Question, length: number): Buffer | undefined {
  return withMemory(thread, 'r', (memory) => {
    const bytes = Buffer.alloc(length)
    return readSync(memory, bytes, 0, length, given[1]!) === length ? bytes : undefined
  })
}
