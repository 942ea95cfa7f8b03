#include "tests/sim/site.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace coxswain::sim {

Site::Site(World* world, Options options)
    : world_(world), options_(options), disk_(world), network_(world, options.network) {
  disk_.set_links(options.links);
}

Site::~Site() {
  for (Node& node : nodes_) {
    if (node.life == nullptr) continue;
    Die(node.life, Death::kMachine);
    Bury(Detach(&node));
  }
  for (auto& remains : replaced_) {
    if (remains->process == nullptr) continue;
    Die(remains->life, Death::kMachine);
    Bury(remains);
  }
  world_->Clear();
}

int Site::AddNode(const std::string& name, Factory factory, std::optional<SimEnv::Options> env) {
  Node node;
  node.name = name;
  node.factory = std::move(factory);
  node.env_options = env.value_or(options_.env);
  nodes_.push_back(std::move(node));
  network_.AddHost(name, nodes() - 1);
  return nodes() - 1;
}

bool Site::up(int node) const {
  const LifePtr& life = nodes_[static_cast<size_t>(node)].life;
  return life != nullptr && life->alive && !life->paused;
}

void Site::Start(int index) {
  Node& node = nodes_[static_cast<size_t>(index)];
  if (node.life != nullptr || node.starting) return;
  node.starting = true;
  world_->Afterwards([this, index] {
    Node& n = nodes_[static_cast<size_t>(index)];
    n.starting = false;
    if (n.life != nullptr) return;
    n.life = world_->NewLife(absl::StrCat(n.name, "#", ++n.starts), index);
    n.env = std::make_unique<SimEnv>(
        world_, &disk_, n.life, n.env_options,
        [this, index](const LifePtr& life, const char* point) {
          ++fault_points_[point];
          if (!ambush_ || nodes_[static_cast<size_t>(index)].life != life) return;
          if (!ambush_(index, point)) return;
          world_->Note(kNoteFault, life->number, 0,
                       [&] { return absl::StrCat("ambush of ", life->name, " at ", point); });
          Kill(index, Death::kProcess, ambush_restart_());
        });
    n.transport = network_.NewTransport(n.life);
    n.process = n.factory(Place{world_, n.env.get(), n.transport.get(), n.life, n.name});
    network_.OnRestart(index);
    // Its first act is an event of its own.
    world_->Schedule(absl::ZeroDuration(), n.life,
                     [process = n.process.get()] { process->Start(); });
  });
}

std::shared_ptr<Site::Remains> Site::Detach(Node* node) {
  auto remains = std::make_shared<Remains>();
  remains->life = std::exchange(node->life, nullptr);
  remains->env = std::move(node->env);
  remains->transport = std::move(node->transport);
  remains->process = std::move(node->process);
  return remains;
}

void Site::Die(const LifePtr& life, Death death) {
  if (!life->alive) return;
  world_->MarkDead(life.get());
  disk_.OnDeath(life.get());
  network_.OnDeath(life, death);
}

void Site::Bury(const std::shared_ptr<Remains>& remains) {
  remains->life->held.clear();
  remains->env->Drain();
  remains->process.reset();
  network_.Forget(remains->life);
  remains->transport.reset();
  old_envs_.push_back(std::move(remains->env));
}

void Site::Kill(int index, Death death, absl::Duration restart_after) {
  Node& node = nodes_[static_cast<size_t>(index)];
  if (node.life == nullptr) return;
  Die(node.life, death);
  // Its own code may be on the stack.
  world_->Afterwards([this, remains = Detach(&node)] { Bury(remains); });
  if (restart_after >= absl::ZeroDuration()) {
    world_->Schedule(restart_after, [this, index] { Start(index); });
  }
}

void Site::Terminate(int index, absl::Duration restart_after) {
  Node& node = nodes_[static_cast<size_t>(index)];
  if (node.life == nullptr) return;
  world_->Schedule(absl::ZeroDuration(), node.life, [this, index, restart_after] {
    Node& n = nodes_[static_cast<size_t>(index)];
    n.process->Terminate([this, index, restart_after, life = n.life] {
      world_->Schedule(absl::Milliseconds(1), life, [this, index, restart_after] {
        Kill(index, Death::kProcess, restart_after);
      });
    });
  });
}

void Site::Pause(int index, absl::Duration length) {
  const LifePtr life = nodes_[static_cast<size_t>(index)].life;
  if (life == nullptr || life->paused) return;
  world_->Pause(life.get());
  world_->Schedule(length, [this, life] {
    if (life->alive) world_->Resume(life.get());
  });
}

void Site::PauseAndReplace(int index, absl::Duration length) {
  Node& node = nodes_[static_cast<size_t>(index)];
  if (node.life == nullptr) return;
  Pause(index, length);
  // It does not listen for anybody (a coordinator), so the address is free.
  replaced_.push_back(Detach(&node));
  // In the end its supervisor gets hold of it.
  const absl::Duration end = length + world_->random().Between(absl::ZeroDuration(), length);
  world_->Schedule(end, [this, remains = replaced_.back()] {
    if (!remains->life->alive) return;
    Die(remains->life, Death::kProcess);
    world_->Afterwards([this, remains] { Bury(remains); });
  });
  Start(index);
}

}  // namespace coxswain::sim
