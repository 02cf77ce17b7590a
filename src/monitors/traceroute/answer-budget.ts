// Answer budget: the number of ICMP errors that a router is expected to send to this agent. Linux sends each
// host six at once, then one a second. Many traces through one router use that up; a missing answer is then
// no sign of loss.
import { TRACEROUTE_LIMITS } from './definition.ts'
import { LeastRecentlyUsed } from '../../network/least-recently-used.ts'

/** Defaults of Linux (icmp(7), icmp_ratelimit). */
const AT_ONCE = 6
const EVERY_MS = 1000

/** Margin for the difference between the router's clock and the agent's. */
const DOUBT = 1

interface Account {
  answers: number
  atMs: number
}

/** The accounts of all routers that answered of late. */
export interface AnswerBudget {
  /** Counts a probe that this router is to answer; false when it may have answered too often already. */
  spend(router: string, nowMs: number): boolean
  /** How long until the router has so many answers left, at most all. Milliseconds. */
  waitMs(router: string, answers: number, nowMs: number): number
}

/** Makes one in which all routers have all their answers left. */
export function createAnswerBudget(): AnswerBudget {
  const accounts = new LeastRecentlyUsed<string, Account>(TRACEROUTE_LIMITS.routersMax)
  const leftOf = (router: string, nowMs: number): number => {
    const account = accounts.get(router)
    if (account === undefined) return AT_ONCE
    return Math.min(AT_ONCE, account.answers + (nowMs - account.atMs) / EVERY_MS)
  }
  return {
    spend(router, nowMs) {
      const left = leftOf(router, nowMs)
      // A router that says nothing may have spent an answer elsewhere: rather too few than too many.
      accounts.set(router, { answers: Math.max(0, left - 1), atMs: nowMs })
      return left >= 1 + DOUBT
    },
    waitMs: (router, answers, nowMs) =>
      Math.max(0, (Math.min(AT_ONCE, answers) - leftOf(router, nowMs)) * EVERY_MS),
  }
}
