// Opens the sockets of a trace, or reports the missing requirement of its protocol.
import type { TracerouteCode } from './definition.ts'
import { familyOf } from '../../network/ip-address.ts'
import { LibcUnavailable } from '../../network/native/libc.ts'
import { loadNative, type Native } from '../../network/native/native-socket.ts'
import { targetFailure } from '../../network/target-failure.ts'
import { openConnectionProber } from './connections.ts'
import { openDatagramProber } from './datagrams.ts'
import type { TracePlan } from './plan.ts'
import type { OpenProber } from './trace.ts'

/**
 * Returns the function that opens the sockets of a trace to the address, a literal. Rejects with a TargetFailure
 * (TRACE_UNSUPPORTED) where this system cannot trace.
 */
export async function openerOf(plan: TracePlan, address: string): Promise<OpenProber> {
  const native = await load()
  const { protocol, port, sourcePort, packetBytes } = plan
  const family = familyOf(address)
  const flow = { family, address, port, sourcePort }
  switch (protocol) {
    case 'TCP':
      return (listener) => openConnectionProber(native, flow, listener)
    case 'UDP':
    case 'ICMP':
    case 'SCTP':
    default:
      return (listener) => openDatagramProber(native, { ...flow, protocol, packetBytes }, listener)
  }
}

async function load(): Promise<Native> {
  try {
    return await loadNative()
  } catch (error) {
    if (!(error instanceof LibcUnavailable)) throw error
    throw targetFailure<TracerouteCode>(
      'TRACE_UNSUPPORTED',
      `this system cannot trace: ${error.message}`,
    )
  }
}
