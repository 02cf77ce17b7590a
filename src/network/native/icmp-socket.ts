// A socket that speaks ICMP: a datagram socket, which needs no privilege where net.ipv4.ping_group_range
// allows it, else a raw one, which needs CAP_NET_RAW.
import { randomInt } from 'node:crypto'
import { exhausted } from '../connect-errors.ts'
import type { Family } from '../dial.ts'
import { echoFix, echoRights } from './echo-permission.ts'
import { EchoFormat } from './icmp-echo.ts'
import type { Native } from './native.ts'
import type { NativeSocket } from './native-socket.ts'
import { isRefusal, SystemCallError } from './system-call-error.ts'
import { TargetFailure, targetFailure } from '../target-failure.ts'

export interface IcmpSocket {
  socket: NativeSocket
  /** `datagram`: the kernel writes identifier and checksum, and delivers only answers for this socket. */
  mode: 'datagram' | 'raw'
  /** The identifier in the echoes of this socket. */
  identifier: number
  format: EchoFormat
}

/**
 * Opens one, with the wanted identifier if it is free. Throws a TargetFailure:
 * ICMP_NOT_PERMITTED, RESOURCES_EXHAUSTED, or CONNECT_UNREACHABLE where the system does not have the
 * family.
 */
export function openIcmpSocket(native: Native, family: Family, wanted?: number): IcmpSocket {
  const protocol = family === 'IPv6' ? 'icmp6' : 'icmp'
  const refusals: Refusals = {}
  for (const mode of ['datagram', 'raw'] as const) {
    let socket: NativeSocket
    try {
      socket = native.open({ family, type: mode, protocol })
    } catch (error) {
      if (!isRefusal(error)) throw openFailure(error, family)
      refusals[mode] = error.code
      continue
    }
    try {
      const identifier = identify(socket, mode, wanted)
      const format = new EchoFormat({ family, isRaw: mode === 'raw', identifier })
      return { socket, mode, identifier, format }
    } catch (error) {
      socket.close()
      throw openFailure(error, family)
    }
  }
  throw notPermitted(family, refusals)
}

type Refusals = Partial<Record<IcmpSocket['mode'], string>>

function identify(
  socket: NativeSocket,
  mode: IcmpSocket['mode'],
  wanted: number | undefined,
): number {
  // The port of a datagram socket is the identifier of its echoes.
  if (mode === 'datagram') return socket.bindPort(wanted)
  const identifier = wanted ?? randomInt(1, 0x10000)
  filter(socket, identifier)
  return identifier
}

/** Instructions of the kernel's packet filter (bpf(4)): {code, jump if true, jump if false, operand}. */
type Instruction = readonly [code: number, ifTrue: number, ifFalse: number, operand: number]

const BPF = { loadByte: 0x30, loadHalf: 0x28, loadByteAtX: 0x50, loadHalfAtX: 0x48 } as const
const [BPF_HEADER_LENGTH_TO_X, BPF_EQUAL, BPF_RETURN] = [0xb1, 0x15, 0x06]
const WHOLE_PACKET = 0xffffffff

/** A raw socket gets all ICMP of the host: the kernel drops all but replies with our identifier. */
function filter(socket: NativeSocket, identifier: number): void {
  const program: Instruction[] =
    socket.family === 'IPv6'
      ? [
          [BPF.loadByte, 0, 0, 0],
          [BPF_EQUAL, 0, 3, 129],
          [BPF.loadHalf, 0, 0, 4],
          [BPF_EQUAL, 0, 1, identifier],
        ]
      : [
          [BPF_HEADER_LENGTH_TO_X, 0, 0, 0],
          [BPF.loadByteAtX, 0, 0, 0],
          [BPF_EQUAL, 0, 3, 0],
          [BPF.loadHalfAtX, 0, 0, 4],
          [BPF_EQUAL, 0, 1, identifier],
        ]
  program.push([BPF_RETURN, 0, 0, WHOLE_PACKET], [BPF_RETURN, 0, 0, 0])
  const bytes = Buffer.alloc(8 * program.length)
  for (const [index, [code, ifTrue, ifFalse, operand]] of program.entries()) {
    const at = 8 * index
    bytes.writeUInt16LE(code, at)
    bytes.writeUInt8(ifTrue, at + 2)
    bytes.writeUInt8(ifFalse, at + 3)
    bytes.writeUInt32LE(operand, at + 4)
  }
  socket.attachFilter(bytes)
}

function openFailure(error: unknown, family: Family): unknown {
  if (!(error instanceof SystemCallError)) return error
  const { code, message } = error
  const own = exhausted(code)
  if (own !== undefined) return new TargetFailure(own)
  if (code === 'EAFNOSUPPORT') {
    return targetFailure('CONNECT_UNREACHABLE', `this agent’s system does not support ${family}`, {
      family,
    })
  }
  return targetFailure('ICMP_NOT_PERMITTED', `no ICMP socket could be opened: ${message}`)
}

function notPermitted(family: Family, refusals: Refusals): TargetFailure {
  const rights = echoRights()
  const message = `this agent’s system does not permit ${family} echo requests. ${echoFix(rights)}`
  return targetFailure('ICMP_NOT_PERMITTED', message, {
    family,
    ...refusals,
    pingGroupRange: rights.range,
  })
}
